// The page works without this file. With it, the page follows the hub, times are those of
// the reader, and forms answer in place.
(() => {
  "use strict";
  const body = document.body, main = document.getElementById("main"), note = document.getElementById("note");
  const live = document.getElementById("live"), bell = document.getElementById("notify");
  const path = body.dataset.path;
  let seq = body.dataset.seq, waiting = Number(body.dataset.waiting), stream = null;

  // Times: "2 min ago", and the whole in the reader's zone as a title.
  const steps = [[60, "second"], [60, "minute"], [24, "hour"], [30, "day"], [12, "month"], [Infinity, "year"]];
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  function showTimes(root) {
    for (const t of root.querySelectorAll("time")) {
      const at = new Date(t.dateTime);
      let n = (at - Date.now()) / 1000, unit = "second";
      if (Math.abs(n) < 5) {
        t.textContent = "just now";
      } else {
        for (const [size, name] of steps) {
          unit = name;
          if (Math.abs(n) < size) break;
          n /= size;
        }
        t.textContent = relative.format(Math.trunc(n), unit);
      }
      t.title = whole.format(at);
    }
  }

  const changed = (e) => (e.tagName === "TEXTAREA" || e.tagName === "INPUT" && e.type !== "hidden") && e.value !== e.defaultValue;

  // A node that the reader has changed stays as it is, and a form with data-keep as a whole.
  const callbacks = {
    beforeNodeMorphed(old, next) {
      if (old.nodeType !== Node.ELEMENT_NODE) return true;
      if (old.tagName === "TIME" && next.tagName === "TIME" && old.dateTime === next.dateTime) return false;
      if (old.dataset.replay && old.dataset.replay === next.dataset.replay) return false;
      if (old.tagName === "DETAILS") next.open = old.open;
      if ("keep" in old.dataset && (old.dataset.keep || [...old.elements].some(changed))) return false;
      return !changed(old);
    },
  };

  function show(page) {
    const atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 80;
    const chat = main.querySelector("[data-follow]");
    Idiomorph.morph(main, page.main, { morphStyle: "innerHTML", callbacks });
    showTimes(main);
    arrangeLists();
    if (chat && atEnd) scrollTo({ top: document.documentElement.scrollHeight });
    document.title = (page.waiting ? "(" + page.waiting + ") " : "") + page.title + " · Parley";
    let badge = document.getElementById("waiting");
    if (!badge && page.waiting) {
      badge = document.createElement("span");
      badge.id = "waiting";
      badge.className = "count";
      document.querySelector('nav a[href="/"]').append(" ", badge);
    }
    if (badge && page.waiting) {
      badge.textContent = page.waiting;
      badge.setAttribute("aria-label", page.waiting + " waiting");
    } else if (badge) {
      badge.remove();
    }
    if (page.waiting > waiting && document.hidden && window.Notification && Notification.permission === "granted") {
      new Notification("Parley", { body: page.waiting === 1 ? "One item is waiting for you." : page.waiting + " items are waiting for you.", tag: "parley-waiting" });
    }
    waiting = page.waiting;
  }

  function say(text) {
    if (live.lastElementChild.textContent !== text) live.lastElementChild.textContent = text;
    live.classList.toggle("on", text === "live");
    live.title = "";
  }

  const following = () => "/live?path=" + encodeURIComponent(path) + "&after=" + seq;

  function follow() {
    if (stream) return;
    stream = new EventSource(following());
    stream.onopen = () => say("live");
    stream.onmessage = (e) => {
      seq = e.lastEventId;
      show(JSON.parse(e.data));
      body.dataset.seq = seq;
    };
    stream.onerror = () => {
      say("reconnecting");
      if (stream && stream.readyState === EventSource.CLOSED) { // refused
        unfollow();
        setTimeout(() => askWhy().catch(follow), 2000);
      }
    };
  }

  // A stream that was refused does not say why: perhaps the session has ended, or too many
  // pages are open. Then this one is reloaded by hand.
  async function askWhy() {
    const stop = new AbortController(), res = await fetch(following(), { signal: stop.signal });
    if (res.status === 401) {
      location.reload();
      return;
    }
    if (res.status !== 429) {
      stop.abort();
      follow();
      return;
    }
    say("not live: reload the page");
    live.title = await res.text();
  }

  function unfollow() {
    if (stream) stream.close();
    stream = null;
  }

  // A browser holds six connections to one host. Pages in the background share one stream,
  // which keeps the number in the title and the notifications.
  function arrange() {
    if (!document.hidden || !navigator.locks) {
      follow();
      return;
    }
    unfollow();
    say("in the background");
    navigator.locks.request("parley-background", () => new Promise((release) => {
      if (!document.hidden) { release(); return; }
      follow();
      document.addEventListener("visibilitychange", release, { once: true });
    }));
  }

  function tell(answer) {
    note.replaceChildren();
    for (const [text, kind] of [[answer.text, ""], [answer.hint, "hint"]]) {
      if (!text) continue;
      const p = document.createElement("p");
      p.textContent = text;
      p.className = kind;
      note.append(p);
    }
    note.classList.toggle("bad", !!answer.failed);
    note.classList.remove("gone");
    clearTimeout(tell.timer);
    if (!answer.failed) tell.timer = setTimeout(() => note.classList.add("gone"), 6000);
  }

  // A log shows its end while the reader is there.
  const ends = new WeakSet();
  function arrangeLists() {
    for (const log of document.querySelectorAll(".log")) {
      if (!ends.has(log) || log.scrollHeight - log.scrollTop - log.clientHeight < 120) log.scrollTop = log.scrollHeight;
      ends.add(log);
    }
    for (const box of document.querySelectorAll("[data-replay]")) if (!box.dataset.ready) addPlayer(box);
  }

  // A recording is played back as it was made, without its long pauses. Steps of one millisecond
  // come one after the other.
  function addPlayer(box) {
    const steps = [...box.querySelectorAll(".replay > li")], player = box.querySelector(".player");
    const play = player.querySelector("[data-play]"), slider = player.querySelector("input"), clock = player.querySelector("[data-clock]");
    const longest = 1500, at = [0];
    for (let i = 1; i < steps.length; i++) at.push(at[i - 1] + Math.max(1, Math.min(longest, steps[i].dataset.ms - steps[i - 1].dataset.ms)));
    const end = at[at.length - 1] + 500;
    let now = end, frame = 0, last = 0;
    function draw() {
      let seen = 0;
      steps.forEach((step, i) => { const later = at[i] > now; step.classList.toggle("later", later); if (!later) seen = i; });
      slider.value = 1000 * now / end;
      clock.textContent = steps[seen].querySelector(".at-time").textContent;
      return steps[seen];
    }
    function stop() {
      cancelAnimationFrame(frame);
      frame = 0;
      play.textContent = "Play";
    }
    function tick(t) {
      now = Math.min(end, now + t - last);
      last = t;
      draw().scrollIntoView({ block: "nearest" });
      if (now < end) frame = requestAnimationFrame(tick);
      else stop();
    }
    play.addEventListener("click", () => {
      if (frame) { stop(); return; }
      if (now >= end) now = 0;
      last = performance.now();
      play.textContent = "Pause";
      frame = requestAnimationFrame(tick);
    });
    slider.addEventListener("input", () => { stop(); now = end * slider.value / 1000; draw(); });
    box.dataset.ready = "yes";
    player.hidden = false;
    draw();
  }

  document.addEventListener("submit", async (e) => {
    const form = e.target, button = e.submitter;
    if (form.method !== "post" || !form.action.includes("/do/") || "keep" in form.dataset) return; // the page of a kept form is loaded anew
    e.preventDefault();
    if (button && button.dataset.confirm && !confirm(button.dataset.confirm)) return;
    const fields = new FormData(form, button); // with the value of the button
    for (const b of form.querySelectorAll("button")) b.disabled = true;
    try {
      const res = await fetch(form.action, { method: "POST", body: new URLSearchParams(fields), headers: { Accept: "application/json" } });
      if (res.status === 401) { location.reload(); return; }
      const answer = await res.json();
      tell(answer);
      if (!answer.failed) {
        form.reset();
        const once = form.querySelector("input[name=once]");
        if (once) once.value = crypto.randomUUID();
      }
    } catch {
      tell({ text: "The hub did not answer.", hint: "Is it running? Try again.", failed: true });
    } finally {
      for (const b of form.querySelectorAll("button")) b.disabled = false;
    }
  });

  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) {
      const search = document.querySelector("input[type=search]");
      if (search) { e.preventDefault(); search.focus(); }
    }
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && e.target.tagName === "TEXTAREA") e.target.form.requestSubmit();
  });

  if (window.Notification && Notification.permission === "default") {
    bell.hidden = false;
    bell.addEventListener("click", () => Notification.requestPermission().then(() => { bell.hidden = true; }));
  }
  document.addEventListener("visibilitychange", arrange);
  addEventListener("pagehide", unfollow);
  addEventListener("pageshow", arrange);
  setInterval(() => showTimes(document), 15000);
  showTimes(document);
  arrangeLists();
})();
