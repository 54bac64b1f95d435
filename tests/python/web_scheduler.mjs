// Runs a plan with schedulers in JavaScript; one result a line: min-rtt, the proposal of the built-in min-rtt, what the
// callbacks were called with, and another scheduler.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [wasm, engine] = process.argv.slice(2);
const { Engine, Send, candidates } = await import(pathToFileURL(engine));
const simulator = await Engine.load(readFileSync(wasm));
const made = JSON.parse(readFileSync(0, "utf8"));
made.transport.scheduler = "js:mine";
const run = (mine) => simulator.run(JSON.stringify(made), { schedulers: { "js:mine": mine } }).digest;

const least = (views) => views.reduce((best, view) => (best === null || view.srtt_ms < best.srtt_ms ? view : best), null);
const nearest = {
  schedule(request, views) {
    return least(candidates(views).filter((view) => view.can_send));
  },
};
console.log(JSON.stringify({ digest: run(nearest) }));
console.log(JSON.stringify({ digest: run({ builds_on: "min-rtt", schedule: (request, views, proposal) => proposal }) }));

const seen = { sent: 0, events: 0, data_una: 0, calls: 0, views: 0, requests: 0 };
class Counting {
  builds_on = "min-rtt";
  schedule(request, views, proposal) {
    seen.calls += 1;
    for (const view of views) {
      seen.views += view.srtt_ms + view.cwnd_segments + view.queued_bytes + view.can_send;
      seen.views += (view.oldest_sent_ms ?? 0) + (view.next_timeout_ms ?? 0) + view.last_ack_ms;
    }
    seen.requests += request.now_ms + request.data_next + request.window_left_bytes;
    return proposal;
  }
  on_sent(id, from, bytes) { seen.sent += bytes; }
  on_data_ack(now_ms, data_una) { seen.data_una = Math.max(seen.data_una, data_una); }
  on_event(now_ms, id, event) { if (event.kind === "delivered") seen.events += event.segments; }
}
run(Counting);
console.log(JSON.stringify(seen));
const last = { schedule: (request, views) => {
  const free = candidates(views).filter((view) => view.can_queue);
  return free.length ? new Send(free[free.length - 1], { burst_bytes: 20_000 }) : null;
} };
console.log(JSON.stringify({ digest: run(last) }));
