// The chat page: requests to this server's own /v1/chat/completions, nothing else.
import { LiveView } from "./live.js";
import { markdown } from "./markdown.js";

const byId = (id) => document.getElementById(id);
const messages = [];
let running = null;

function headers() {
  const key = sessionStorage.getItem("key");
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function fetchText(path) {
  const response = await fetch(path, { headers: headers() });
  if (response.status === 401) byId("key-form").hidden = false;
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.text();
}

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = text === "";
}

async function loadModels() {
  try {
    const list = JSON.parse(await fetchText("v1/models")).data;
    byId("model").replaceChildren(...list.map((model) => new Option(model.id, model.id)));
    notice("");
  } catch (error) {
    notice(`The server does not answer yet (${error.message}); trying again.`);
    setTimeout(loadModels, 2000);
  }
}

/** The data of each event of a response's stream. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      for (const line of part.split("\n")) if (line.startsWith("data: ")) yield line.slice(6);
    }
  }
}

class Turn {
  constructor() {
    this.item = document.createElement("li");
    this.item.className = "assistant";
    this.thinking = document.createElement("details");
    this.thinking.hidden = true;
    this.thinkingTitle = document.createElement("summary");
    this.thinkingTitle.textContent = "Thinking …";
    this.thinkingText = document.createElement("div");
    this.thinking.append(this.thinkingTitle, this.thinkingText);
    this.body = document.createElement("div");
    this.body.className = "answer";
    this.figures = document.createElement("p");
    this.figures.className = "figures";
    this.item.append(this.thinking, this.body, this.figures);
    byId("turns").append(this.item);
    this.reasoning = "";
    this.content = "";
    this.begin_ms = performance.now();
  }

  add(delta) {
    const reasoning = delta.reasoning ?? delta.reasoning_content ?? "";
    if (reasoning === "" && !delta.content && !delta.tool_calls) return;
    this.first_ms ??= performance.now();
    this.reasoning += reasoning;
    this.content += delta.content ?? "";
    for (const call of delta.tool_calls ?? []) {
      this.content += call.function?.name ? `\n\n\`${call.function.name}\` ` : "";
      this.content += call.function?.arguments ?? "";
    }
    this.pending ??= requestAnimationFrame(() => this.show());
  }

  show() {
    this.pending = null;
    const turns = byId("turns");
    const atEnd = turns.scrollHeight - turns.scrollTop - turns.clientHeight < 60;
    this.thinking.hidden = this.reasoning === "";
    this.thinkingText.textContent = this.reasoning;
    if (this.content !== "") this.thinkingTitle.textContent = `Thought, ${this.reasoning.length} characters`;
    this.body.replaceChildren(...markdown(this.content));
    if (atEnd) turns.scrollTop = turns.scrollHeight;
  }

  end(usage, finish) {
    this.show();
    this.thinkingTitle.textContent = `Thought, ${this.reasoning.length} characters`;
    if (!usage) return;
    const seconds = (performance.now() - (this.first_ms ?? this.begin_ms)) / 1000;
    const wait = ((this.first_ms ?? performance.now()) - this.begin_ms) / 1000;
    const rate = usage.completion_tokens > 1 && seconds > 0 ? ((usage.completion_tokens - 1) / seconds).toFixed(1) : "–";
    this.figures.textContent = `${usage.completion_tokens} tokens, ${rate} tokens/s, first after ${wait.toFixed(2)} s, ` +
      `prompt ${usage.prompt_tokens} tokens` + (finish && finish !== "stop" ? `; ended: ${finish}` : "");
  }

  fail(text) {
    this.show();
    const line = document.createElement("p");
    line.className = "error";
    line.textContent = text;
    this.item.append(line);
  }
}

function body() {
  const temperature = byId("temperature").value;
  const effort = byId("effort").value;
  return JSON.stringify({
    model: byId("model").value, messages, stream: true, stream_options: { include_usage: true, continuous_usage_stats: true },
    ...(temperature === "" ? {} : { temperature: Number(temperature) }), ...(effort === "" ? {} : { reasoning_effort: effort }),
  });
}

async function answer() {
  const turn = new Turn();
  running = new AbortController();
  byId("send").hidden = true;
  byId("stop").hidden = false;
  let usage = null;
  let finish = null;
  try {
    const response = await fetch("v1/chat/completions", { method: "POST", headers: headers(), body: body(), signal: running.signal });
    if (response.status === 401) byId("key-form").hidden = false;
    if (!response.ok) throw new Error((await response.json().catch(() => null))?.error?.message ?? `status ${response.status}`);
    for await (const data of events(response)) {
      if (data === "[DONE]") break;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      usage = chunk.usage ?? usage;
      for (const choice of chunk.choices) {
        turn.add(choice.delta);
        finish = choice.finish_reason ?? finish;
      }
    }
  } catch (error) {
    if (error.name === "AbortError") finish = "stopped";
    else turn.fail(error.message);
  }
  turn.end(usage, finish);
  if (turn.content !== "" || turn.reasoning !== "") {
    messages.push({ role: "assistant", content: turn.content, ...(turn.reasoning ? { reasoning: turn.reasoning } : {}) });
  }
  running = null;
  byId("send").hidden = false;
  byId("stop").hidden = true;
  byId("text").focus();
}

function ask(event) {
  event?.preventDefault();
  const text = byId("text").value;
  if (running || text.trim() === "") return;
  const item = document.createElement("li");
  item.className = "user";
  item.textContent = text;
  byId("turns").append(item);
  item.scrollIntoView();
  messages.push({ role: "user", content: text });
  byId("text").value = "";
  answer();
}

byId("ask").addEventListener("submit", ask);
byId("stop").addEventListener("click", () => running?.abort());
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) ask(event);
});
byId("new").addEventListener("click", () => {
  running?.abort();
  messages.length = 0;
  byId("turns").replaceChildren();
});
byId("key-form").firstElementChild.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", byId("key").value);
  byId("key-form").hidden = true;
  loadModels();
});

const live = new LiveView(fetchText);
byId("live-toggle").addEventListener("click", () => {
  const open = byId("live").hidden;
  byId("live").hidden = !open;
  byId("live-toggle").setAttribute("aria-expanded", String(open));
  if (open) live.start();
  else live.stop();
});
loadModels();
