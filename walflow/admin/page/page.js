"use strict";
// Asks /watch every second and draws it anew. What comes from the daemon becomes text, never HTML.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const EVERY = 1000, WIDTH = 156, HEIGHT = 50, ACROSS = 230, DOWN = 76, SHOWN = 50;
let token = sessionStorage.getItem("walflow-token") || "";
let known = null, chosen = null, tap = null;

function headers() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function count(number) {
  if (number < 100000) return Math.round(number).toLocaleString("en");
  return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(number);
}

function rate(number) {
  return number === undefined || number === null ? "" : number > 0 && number < 10 ? number.toFixed(1) : count(number);
}

function size(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  return `${bytes < 10 && unit ? bytes.toFixed(1) : Math.round(bytes)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

function age(seconds) {
  for (const [unit, length] of [["s", 60], ["min", 60], ["h", 48]]) {
    if (seconds < length) return `${Math.round(seconds)} ${unit}`;
    seconds /= unit === "h" ? 24 : 60;
  }
  return `${Math.round(seconds)} d`;
}

function seconds(number) {
  return number < 1 ? `${Math.round(number * 1000)} ms` : `${number.toFixed(1)} s`;
}

function drawn(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function rows(id, lines) {
  $(id).replaceChildren(...lines.map(({ cells, bad, words = [] }) => {
    const row = document.createElement("tr");
    if (bad) row.className = "bad";
    cells.forEach((text, number) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      if (words.includes(number)) cell.className = "words";
      row.append(cell);
    });
    return row;
  }));
}

function connector(place) {
  const flow = known.status.flows.find((one) => one.name === place.flow);
  return place.kind === "connector" ? flow.connectors.find((one) => one.name === place.name) : null;
}

function state(one) {
  if (one.state !== "up" || one.reason) return one.reason ? `${one.state}: ${one.reason}` : one.state;
  if (one.breaker) return `breaker: ${one.breaker.text || one.breaker.reason}`;
  if (!one.gate.length) return "up";
  const { by } = one.gate[0];
  return by.startsWith("paused ") ? by.split("::").pop() === one.name ? "paused" : by : `waits: ${by}`;
}

function isBad(one) {
  return Boolean(one) && (!["up", "finished"].includes(one.state) || Boolean(one.breaker) || Boolean(one.failure && (one.failure.row || one.failure.waiting)));
}

// Of a sink that fails, or that failed within the last minute: as `walflow status` says it.
function failure(one) {
  const found = one.failure;
  if (!found || !(found.row || found.waiting || found.seconds)) return "";
  const at = found.position ? `, last at position ${found.position}` : "";
  const how = found.row ? `has failed ${found.row === 1 ? "once" : `${count(found.row)} times in a row`} for ${age(found.seconds)}${at}`
    : found.waiting ? `takes events, and has failed ${count(found.waiting)} for ${age(found.seconds)}${found.first ? `, the oldest at position ${found.first} ${found.tries} times` : ""}`
    : `failed ${age(found.ago)} ago, and has taken events since`;
  return `${how}: ${found.cause}${found.advice ? `; ${found.advice}` : ""}`;
}

function klass(number) {
  return !number ? "r0" : number < 100 ? "r1" : number < 10000 ? "r2" : "r3";
}

function drawFlow() {
  const { nodes, links } = known;
  const columns = 1 + Math.max(0, ...nodes.map((one) => one.column)), lines = 1 + Math.max(0, ...nodes.map((one) => one.row));
  const [width, height] = [(columns - 1) * ACROSS + WIDTH + 8, (lines - 1) * DOWN + HEIGHT + 24];
  const svg = $("flow"), focused = document.activeElement?.dataset?.number;
  for (const [key, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) svg.setAttribute(key, value);
  const x = (one) => 4 + one.column * ACROSS, y = (one) => 16 + one.row * DOWN;
  const paths = links.flatMap((link) => {
    const [from, to] = [nodes[link.source], nodes[link.target]];
    const [x1, y1, x2, y2] = [x(from) + WIDTH, y(from) + HEIGHT / 2, x(to), y(to) + HEIGHT / 2];
    const back = x2 < x1, bend = back ? 60 : (x2 - x1) / 2;
    const line = drawn("path", { d: `M${x1} ${y1} C${x1 + bend} ${y1 + (back ? 50 : 0)} ${x2 - bend} ${y2 + (back ? 50 : 0)} ${x2} ${y2}`, class: `${klass(link.rate)}${link.port === "err" ? " err" : ""}` });
    line.append(drawn("title", {}, `${from.name}/${link.port}: ${rate(link.rate)} events/s`));
    const label = link.rate ? [drawn("text", { class: "dim", x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 5, "text-anchor": "middle" }, `${rate(link.rate)}/s`)] : [];
    return [line, ...label];
  });
  const boxes = nodes.map((one, number) => {
    const of = connector(one), log = of && of.log;
    const lag = log && log.backlog_events ? `${count(log.backlog_events)} waiting, ${age(log.oldest_seconds)}` : of ? state(of) : "pipeline";
    const box = drawn("g", { class: `node${isBad(of) ? " bad" : ""}${chosen === number ? " chosen" : ""}`, tabindex: 0, role: "button", "data-number": number, "aria-label": `${one.name}: ${lag}` },
      drawn("rect", { x: x(one), y: y(one), width: WIDTH, height: HEIGHT, rx: one.kind === "pipeline" ? HEIGHT / 2 : 5 }),
      drawn("text", { x: x(one) + WIDTH / 2, y: y(one) + 21, "text-anchor": "middle" }, cut(one.name, 20)),
      drawn("text", { class: "dim", x: x(one) + WIDTH / 2, y: y(one) + 38, "text-anchor": "middle" }, cut(lag, 25)));
    box.addEventListener("click", () => choose(number));
    box.addEventListener("keydown", (key) => { if (key.key === "Enter") choose(number); });
    return box;
  });
  svg.replaceChildren(...paths, ...boxes);
  if (focused !== undefined) svg.querySelector(`[data-number="${focused}"]`)?.focus();
}

function drawBacklogs() {
  const series = Object.entries(known.backlogs);
  $("backlog").hidden = !known.status.flows.some((flow) => flow.connectors.some((one) => one.log));
  const last = Math.max(1, ...series.flatMap(([, points]) => points.map(([at]) => at)));
  const most = Math.max(1, ...series.flatMap(([, points]) => points.map(([, events]) => events)));
  const at = ([time, events]) => `${(590 - (last - time)).toFixed(1)} ${(120 - 105 * events / most).toFixed(1)}`;
  $("chart").replaceChildren(
    drawn("line", { x1: 0, y1: 120, x2: 600, y2: 120 }),
    drawn("text", { class: "dim", x: 0, y: 11 }, count(most)),
    drawn("text", { class: "dim", x: 590, y: 135, "text-anchor": "end" }, "now"),
    ...series.map(([, points], number) => drawn("path", { class: `s${number % 4}`, d: `M${points.map(at).join(" L")}` })));
  rows("logs", known.status.flows.flatMap((flow) => flow.connectors.filter((one) => one.log).map((one) => ({
    cells: [`${flow.name}/${one.name}`, count(one.log.backlog_events || 0), age(one.log.oldest_seconds || 0), size(one.log.used_bytes || 0),
      one.log.budget_bytes ? `${Math.round(100 * one.log.used_bytes / one.log.budget_bytes)} %` : "", count(one.log.chunks || 0),
      one.log.history_bytes ? `${size(one.log.history_bytes)}, ${age(one.log.history_seconds)} back` : ""],
  }))));
}

function drawTables() {
  const { status } = known;
  $("head").textContent = `${status.version}, pid ${status.pid}, up ${age(status.uptime_seconds)}: ${status.ready ? "ready" : status.state === "stopping" ? "stopping" : "not ready"}`;
  $("head").className = status.ready ? "" : "bad";
  const letters = (flow, one) => one.letters.map((each) => `${flow.name}/${one.name} keeps ${count(each.events)} events that ${each.sink} has rejected: walflow letters`);
  const told = [...status.not_ready, ...status.waits.map((one) => `${one.who} has waited ${Math.round(one.seconds)} s for ${one.call}`),
    ...status.standstills.map((one) => `${one.source} stands still for ${one.seconds} s: ${one.reason}`),
    ...status.flows.flatMap((flow) => flow.connectors.filter(failure).map((one) => `${flow.name}/${one.name} ${failure(one)}`)),
    ...status.flows.flatMap((flow) => flow.connectors.flatMap((one) => letters(flow, one)))];
  $("troubles").replaceChildren(...told.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  rows("nodes", status.flows.flatMap((flow) => flow.connectors.map((one) => {
    const sends = flow.links.some((link) => link.source === one.name), takes = flow.links.some((link) => link.target === one.name);
    return { bad: isBad(one), words: [1], cells: [`${flow.name}/${one.name}`, cut(state(one), 60), sends ? rate(one.rates.received || 0) : "", takes ? rate(one.rates.acked || 0) : "",
      count(one.events.rejected || 0), count(one.events.failed || 0), one.window_bytes ? `${Math.round(100 * one.inflight_bytes / one.window_bytes)} %` : "",
      one.requests ? `${seconds(one.requests.median)} / ${seconds(one.requests.p99)}` : ""] };
  })));
  const tables = status.flows.flatMap((flow) => flow.connectors.flatMap((one) => one.frontiers.map((of) => ({
    words: [1], cells: [`${flow.name}/${one.name}`, of.log, of.position.toLocaleString("en"), count(of.lag)] }))));
  $("tables").hidden = !tables.length;
  rows("frontiers", tables);
  const consumers = status.flows.flatMap((flow) => flow.connectors.flatMap((one) => one.consumers.map((of) => ({
    bad: of.away > 0, words: [1], cells: [`${flow.name}/${one.name}`, of.name, of.position.toLocaleString("en"), count(of.lag), of.away ? `${of.away} s` : ""] }))));
  $("readers").hidden = !consumers.length;
  rows("consumers", consumers);
  $("no-rejections").hidden = known.rejections.length > 0;
  rows("rejections", known.rejections.map((one) => ({ words: [1, 4, 5], cells: [new Date(one.received_ms).toISOString().slice(0, 19).replace("T", " "), one.node, count(one.events), one.position ?? "", one.at ?? "",
    known.tap ? one.reason : "start the daemon with --tap to see it here"] })));
}

function drawNode() {
  $("node").hidden = chosen === null;
  if (chosen === null) return;
  const place = known.nodes[chosen], of = connector(place);
  $("node-name").textContent = `${place.flow}/${place.name}`;
  $("node-state").textContent = of ? `${of.type}, ${state(of)}, ${of.restarts} restarts` : "pipeline";
  $("tap").hidden = !known.tap;
  $("tap").textContent = tap ? "Stop" : "Show events";
  $("pause").hidden = !(known.may_change && of);
  $("pause").textContent = isPaused(place, of) ? "Resume" : "Pause";
}

function isPaused(place, of) {
  return Boolean(of) && of.gate.some((one) => one.by === `paused ${place.flow}::${place.name}`);
}

function choose(number) {
  stopTap();
  chosen = chosen === number ? null : number;
  $("answer").textContent = "";
  $("events").hidden = true;
  drawFlow();
  drawNode();
}

function stopTap() {
  tap?.abort();
  tap = null;
}

async function startTap(place) {
  const mine = tap = new AbortController(), shown = [];
  $("events").hidden = false;
  $("events").textContent = "";
  drawNode();
  try {
    const answer = await fetch(`tap?${new URLSearchParams({ at: `${place.flow}/${place.name}`, limit: 20 })}`, { headers: headers(), signal: mine.signal });
    if (!answer.ok) throw new Error(await answer.text());
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      shown.push(...lines.filter((line) => line.startsWith('{"port":')));
      shown.splice(0, shown.length - SHOWN);
      $("events").textContent = shown.join("\n");
    }
  } catch (error) {
    if (!mine.signal.aborted) $("answer").textContent = error.message;
  }
  if (tap === mine) tap = null;
}

async function change() {
  const place = known.nodes[chosen], wanted = isPaused(place, connector(place)) ? "running" : "paused";
  const path = `v1/flows/${encodeURIComponent(place.flow)}/connectors/${encodeURIComponent(place.name)}`;
  try {
    const answer = await fetch(path, { method: "PATCH", headers: headers(), body: JSON.stringify({ status: wanted }) });
    $("answer").textContent = answer.ok ? "" : (await answer.json()).error;
  } catch (error) {
    $("answer").textContent = error.message;
  }
  await look();
}

async function look() {
  try {
    const answer = await fetch("watch", { headers: headers() });
    $("login").hidden = answer.status !== 401;
    $("main").hidden = !answer.ok;
    if (!answer.ok) {
      $("head").textContent = answer.status === 401 ? "" : `the daemon answers ${answer.status}: ${await answer.text()}`;
      return;
    }
    known = await answer.json();
    drawTables();
    drawFlow();
    drawBacklogs();
    drawNode();
  } catch (error) {
    $("head").textContent = "no daemon answers; it may be restarting";
    $("head").className = "bad";
  }
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("walflow-token", token);
  look();
});
$("tap").addEventListener("click", () => { if (tap) { stopTap(); drawNode(); } else startTap(known.nodes[chosen]); });
$("pause").addEventListener("click", change);
$("close").addEventListener("click", () => choose(chosen));

async function again() {
  if (!document.hidden) await look();
  setTimeout(again, EVERY);
}
again();
