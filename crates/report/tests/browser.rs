//! The page in a real browser: headless Chromium, driven over its DevTools protocol. Skipped, with the reason, where
//! no Chromium is installed.

#![expect(clippy::unwrap_used, reason = "what is none or an error fails the test")]

mod fixture;
#[path = "fixture/reproduction.rs"]
mod reproduction;

use serde_json::{Value, json};
use stayput_report::{self as report, Format};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tungstenite::{Message, WebSocket};

/// The narrowest phone and an ordinary desk, in CSS pixels.
const WIDTHS: [u32; 2] = [360, 1280];
/// Longest that any answer of the browser may take before the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn every_page_loads_nothing_else_fits_its_width_and_raises_no_error() {
    let Some(mut browser) = Browser::start() else { return };
    let studies = fixture::all().into_iter().chain([("race-of-200", fixture::race_of_200().study())]);
    let pages = studies.map(|(name, study)| (name, fixture::write(&study, Format::Html)));
    for (name, page) in pages.chain([("papers", papers())]) {
        let file = browser.write(name, &page);
        for width in WIDTHS {
            for scripts in [true, false] {
                let case = format!("{name} at {width}, scripts {scripts}");
                browser.visit(&file, width, scripts);
                let page = browser.evaluate(
                    "({ scroll: document.documentElement.scrollWidth, seen: innerWidth, \
                        button: getComputedStyle(document.getElementById('theme')).display, \
                        undescribed: [...document.querySelectorAll('svg')].filter(svg => !svg.querySelector(':scope > title') \
                            || !svg.getAttribute('aria-label') || svg.getAttribute('role') !== 'img').length, \
                        flat: [...document.querySelectorAll('svg')].filter(svg => { \
                            const box = svg.getBoundingClientRect(); return box.width < 100 || box.height < 20 }).length })",
                );
                assert_eq!(page["seen"], width, "{case}");
                assert!(page["scroll"].as_u64().unwrap() <= u64::from(width), "{case} is {} wide", page["scroll"]);
                assert_eq!(page["undescribed"], 0, "{case}: pictures without title or text alternative");
                assert_eq!(page["flat"], 0, "{case}: pictures that are not seen");
                assert_eq!(page["button"] == "none", !scripts, "{case}: the theme button is there when it works");
                assert_eq!(browser.requests(), [file.url.as_str()], "{case}");
                assert_eq!(browser.errors(), Vec::<Value>::new(), "{case}");
            }
        }
    }
}

#[test]
fn chart_text_stays_legible() {
    let Some(mut browser) = Browser::start() else { return };
    let studies = fixture::all().into_iter().chain([("race-of-200", fixture::race_of_200().study())]);
    let pages = studies.map(|(name, study)| (name, fixture::write(&study, Format::Html)));
    for (name, page) in pages.chain([("papers", papers())]) {
        let file = browser.write(name, &page);
        for width in WIDTHS {
            browser.visit(&file, width, true);
            legible(&mut browser, &format!("{name} at {width}"));
        }
    }
}

/// The page of papers beside ours.
fn papers() -> String {
    report::reproduction::html(&[reproduction::paper(), reproduction::empty()])
}

#[test]
fn a_race_grows_with_the_page_and_its_text_does_not() {
    let Some(mut browser) = Browser::start() else { return };
    let study = fixture::race();
    let file = browser.write("race", &study.write(Format::Html));
    let mut look = |width: u32| {
        browser.visit(&file, width, true);
        let look = browser.evaluate(
            "(() => { const svg = document.querySelector('#race svg.chart'), width = svg.getBoundingClientRect().width; \
                const text = parseFloat(getComputedStyle(svg.querySelector('text')).fontSize); \
                return [width, text * width / svg.viewBox.baseVal.width] })()",
        );
        [0, 1].map(|index| look[index].as_f64().unwrap())
    };
    let ([phone, phone_text], [desk, desk_text]) = (look(360), look(1280));
    assert!(desk > 1.7 * phone, "{desk} pixels against {phone}");
    assert!((9.5..=14.0).contains(&phone_text) && (9.5..=14.0).contains(&desk_text), "{phone_text}, {desk_text}");
    assert_eq!(browser.errors(), Vec::<Value>::new());
}

fn legible(browser: &mut Browser, name: &str) {
    let smallest = browser.evaluate(
        "Math.min(99, ...[...document.querySelectorAll('svg.chart')].flatMap(svg => { \
            const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width; \
            return [...svg.querySelectorAll('text')].map(text => parseFloat(getComputedStyle(text).fontSize) * scale) }))",
    );
    assert!(smallest.as_f64().unwrap() >= 9.5, "{name}: the smallest text is {smallest} pixels high");
    let outside = browser.evaluate(
        "[...document.querySelectorAll('svg.chart text')].filter(text => { \
            const box = text.getBoundingClientRect(), frame = text.closest('svg').getBoundingClientRect(); \
            return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1 }) \
            .map(text => text.textContent)",
    );
    assert_eq!(outside, json!([]), "{name}: text beyond its chart");
    let touching = browser.evaluate(
        "[...document.querySelectorAll('svg.chart')].flatMap(svg => { \
            const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]); \
            return texts.flatMap(([text, box], index) => texts.slice(index + 1).filter(([, other]) => \
                Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1 && \
                Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 4).map(([other]) => text + ' | ' + other)) })",
    );
    assert_eq!(touching, json!([]), "{name}: texts that touch");
}

#[test]
fn both_themes_change_charts_and_paper() {
    let Some(mut browser) = Browser::start() else { return };
    let study = fixture::two_cpus();
    let file = browser.write("two-cpus", &study.write(Format::Html));
    let look = "({ paper: getComputedStyle(document.body).backgroundColor, \
        text: getComputedStyle(document.querySelector('svg.chart text')).fill, \
        mark: getComputedStyle(document.querySelector('svg.chart .h1:not(.open)')).fill })";
    let mut looks = Vec::new();
    for scheme in ["light", "dark"] {
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
        browser.visit(&file, 1280, true);
        looks.push(browser.evaluate(look));
    }
    for part in ["paper", "text", "mark"] {
        assert_ne!(looks[0][part], looks[1][part], "{part}");
    }
    // The reader prefers dark, and the button says otherwise.
    browser.evaluate("document.getElementById('theme').click()");
    assert_eq!(browser.evaluate(look), looks[0]);
    browser.evaluate("document.getElementById('theme').click()");
    assert_eq!(browser.evaluate(look), looks[1]);
}

#[test]
fn the_table_of_trials_sorts_and_filters() {
    let Some(mut browser) = Browser::start() else { return };
    let study = fixture::opteron();
    let file = browser.write("opteron", &study.write(Format::Html));
    browser.visit(&file, 1280, true);
    let order = |browser: &mut Browser| -> Vec<u64> {
        let rows = browser.evaluate("[...document.getElementById('trials').tBodies[0].rows].filter(row => !row.hidden).map(row => +row.cells[0].textContent)");
        rows.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
    };
    let mut by_time: Vec<_> = study.record.trials.iter().filter(|t| t.time_s.is_some()).collect();
    by_time.sort_by(|a, b| a.time_s.unwrap().total_cmp(&b.time_s.unwrap()));
    let head = "[...document.querySelectorAll('#trials th')].find(head => head.textContent.startsWith('time')).querySelector('button').click()";
    browser.evaluate(head);
    assert_eq!(order(&mut browser)[0], u64::from(by_time[0].sequence), "fastest first");
    browser.evaluate(head);
    let slowest = order(&mut browser)[study.record.trials.len() - by_time.len()];
    assert_eq!(slowest, u64::from(by_time.last().unwrap().sequence), "slowest first, after those without a time");
    browser.evaluate(
        "(() => { const input = document.querySelector('input[data-filters=trials]'); \
            input.value = 'npb:bt.A Signal'; input.dispatchEvent(new Event('input')) })()",
    );
    assert_eq!(order(&mut browser), [90]);
    assert_eq!(browser.errors(), Vec::<Value>::new());
}

/// A page on disk.
struct PageFile {
    url: String,
}

/// A Chromium of our own with one tab, gone when dropped.
struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    /// The tab's session.
    session: Option<String>,
    last_id: u64,
    /// What the tab told unasked since the last visit began.
    events: Vec<Value>,
    directory: tempfile::TempDir,
}

impl Browser {
    /// None, with the reason printed, where no Chromium is installed.
    fn start() -> Option<Self> {
        let Some(program) = installed(&["chromium", "chromium-browser", "google-chrome"]) else {
            eprintln!("skipped: no chromium in PATH (Debian's package is called chromium)");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let mut process = Command::new(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("DevTools listening on ")?.1.to_owned()));
        let url = url.expect("chromium says where it listens");
        // A full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.trim_start_matches("ws://").split('/').next().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(url.as_str(), stream).unwrap();
        let mut browser = Self { process, socket, session: None, last_id: 0, events: Vec::new(), directory };
        let tab = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": tab["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Network", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    fn write(&self, name: &str, html: &str) -> PageFile {
        let path = self.directory.path().join(format!("{name}.html"));
        std::fs::write(&path, html).unwrap();
        PageFile { url: format!("file://{}", path.display()) }
    }

    /// Opens `page` in a window `width` CSS pixels wide and waits until it is loaded.
    fn visit(&mut self, page: &PageFile, width: u32, scripts: bool) {
        let screen = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", screen);
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !scripts }));
        self.events.clear();
        let navigated = self.call("Page.navigate", json!({ "url": page.url }));
        assert!(navigated["errorText"].is_null(), "{navigated}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.receive();
        }
    }

    /// The value of a JavaScript expression, which DevTools evaluate even where the page's own scripts are off.
    fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Every address that the page asked for.
    fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// Whatever the console shows in red.
    fn errors(&self) -> Vec<Value> {
        let is_error = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.events.iter().filter(is_error).cloned().collect()
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            if let Some(mut answer) = self.receive() {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
        }
    }

    /// The next message: the answer to the last call, or none when it was an event, which is kept.
    fn receive(&mut self) -> Option<Value> {
        let message = self.socket.read().expect("chromium answers in time");
        let message: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        if message["id"] == self.last_id {
            return Some(message);
        }
        self.events.push(message);
        None
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn installed(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        |name: &&str| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| Path::is_file(file));
    names.iter().find_map(found)
}
