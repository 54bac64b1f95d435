//! The command line of `anabranch-drill`.

use anabranch_drill::{Cut, Twin, parse_marks};

/// The text of `--help`.
pub(crate) const USAGE: &str = "\
usage: anabranch-drill [--seed N | --seeds A..B | --seconds S | --cpu-seconds S] [options]

  --seed N            one seed; prints all changes
  --seeds A..B        these seeds, B left out
  --seconds S         run seeds for this time
  --cpu-seconds S     run seeds for this CPU time
  --start N           first seed with --seconds or --cpu-seconds (0)
  --twin T            only benign, blind or hostile
  --only s1,a2 | none make only these changes
  --bytes N           maximum bytes in each direction
  --scheduler NAME    the scheduler of both sides
  --congestion NAME   the congestion controller of both sides
  --no-shrink         do not reduce failing cases
  --digests           with --seeds: only the digests of each seed's cases
  --verbose           with --seed: prints the drawn case and every segment";

/// The command-line options.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) first: u64,
    pub(crate) end: u64,
    /// Whether only a single seed runs.
    pub(crate) alone: bool,
    pub(crate) seconds: Option<u64>,
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) twins: Vec<Twin>,
    pub(crate) cut: Cut,
    pub(crate) shrinks: bool,
    pub(crate) verbose: bool,
    /// Whether to print only the digests of each seed's cases, in the format of `tests/lock.txt`.
    pub(crate) digests: bool,
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("not a whole number: {text}"))
}

fn twin(name: &str) -> Result<Vec<Twin>, String> {
    let found: Vec<Twin> = Twin::ALL.into_iter().filter(|twin| twin.name() == name).collect();
    if found.is_empty() { Err(format!("no twin is called {name}")) } else { Ok(found) }
}

impl Options {
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            first: 0,
            end: u64::MAX,
            alone: false,
            seconds: None,
            cpu_seconds: None,
            twins: Twin::ALL.to_vec(),
            cut: Cut::default(),
            shrinks: true,
            verbose: false,
            digests: false,
        };
        while let Some(name) = arguments.next() {
            match name.as_str() {
                "--digests" => options.digests = true,
                "--no-shrink" => options.shrinks = false,
                "--verbose" => options.verbose = true,
                "--help" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                _ => {
                    let value =
                        arguments.next().ok_or(format!("{name} needs a value, or is unknown"))?;
                    options.set(&name, &value)?;
                }
            }
        }
        if options.end == u64::MAX && options.seconds.is_none() && options.cpu_seconds.is_none() {
            return Err("give --seed, --seeds, --seconds or --cpu-seconds".to_owned());
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--seed" => {
                self.first = number(value)?;
                (self.end, self.alone) = (self.first + 1, true);
            }
            "--seeds" => {
                let (from, to) = value.split_once("..").ok_or("seeds are given as A..B")?;
                (self.first, self.end) = (number(from)?, number(to)?);
            }
            "--start" => self.first = number(value)?,
            "--seconds" => self.seconds = Some(number(value)?),
            "--cpu-seconds" => self.cpu_seconds = Some(number(value)?),
            "--twin" => self.twins = twin(value)?,
            "--only" => {
                let marks = parse_marks(value).ok_or(format!("not a list of marks: {value}"))?;
                self.cut.only = Some(marks);
            }
            "--bytes" => self.cut.bytes = Some(number(value)?),
            "--scheduler" => self.cut.scheduler = Some(value.to_owned()),
            "--congestion" => self.cut.congestion = Some(value.to_owned()),
            _ => return Err(format!("unknown option: {name}")),
        }
        Ok(())
    }
}
