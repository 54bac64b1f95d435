// The page in which hls.js plays: what happens is told to the binding `tell`, a text of JSON each.
"use strict";

const video = document.getElementById("video");
const hls = new Hls();
const epoch = () => performance.timeOrigin + performance.now();
const send = (what, more = {}) => tell(JSON.stringify({ epoch_ms: epoch(), what, ...more }));
// Times of a load are those of `performance.now`.
const at = (time) => (time > 0 ? performance.timeOrigin + time : null);

function ahead() {
  for (let n = 0; n < video.buffered.length; n += 1) {
    if (video.buffered.start(n) <= video.currentTime + 0.1 && video.currentTime < video.buffered.end(n)) {
      return video.buffered.end(n) - video.currentTime;
    }
  }
  return 0;
}

function load(what, data) {
  const stats = data.stats ?? data.frag.stats;
  const { start, first, end } = stats.loading;
  send(what, {
    asked_ms: at(start),
    first_ms: at(first),
    done_ms: at(end),
    bytes: stats.total || stats.loaded,
    url: data.frag?.url ?? data.url,
    track: data.frag?.type ?? null,
    index: data.frag?.sn ?? null,
    level: data.frag?.level ?? null,
    duration_s: data.frag?.duration ?? null,
    buffer_s: ahead(),
  });
}

const { Events } = Hls;
hls.on(Events.MANIFEST_PARSED, (_, data) => {
  send("levels", { levels: data.levels.map(({ bitrate, height }) => ({ bitrate, height })) });
  video.play();
});
hls.on(Events.MANIFEST_LOADED, (_, data) => load("playlist", data));
hls.on(Events.LEVEL_LOADED, (_, data) => load("playlist", { ...data, url: data.details.url }));
hls.on(Events.FRAG_LOADING, (_, data) => send("asked", { index: data.frag.sn, track: data.frag.type, buffer_s: ahead() }));
hls.on(Events.FRAG_LOADED, (_, data) => load("chunk", data));
hls.on(Events.FRAG_LOAD_EMERGENCY_ABORTED, (_, data) => load("abandoned", data));
hls.on(Events.ERROR, (_, data) => send("fault", { fatal: data.fatal, details: data.details }));
for (const name of ["playing", "waiting", "ended", "error"]) {
  video.addEventListener(name, () => send(name, { position_s: video.currentTime, buffer_s: ahead() }));
}
setInterval(() => {
  const { totalVideoFrames, droppedVideoFrames } = video.getVideoPlaybackQuality();
  send("counters", {
    position_s: video.currentTime, buffer_s: ahead(), pictures: totalVideoFrames, dropped: droppedVideoFrames,
  });
}, 100);

function play(url) {
  hls.attachMedia(video);
  hls.loadSource(url);
}
