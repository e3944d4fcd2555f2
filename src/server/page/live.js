// The live view: what /metrics says, once a second.

const HISTORY_SECONDS = 120;

/** Prometheus text as a list of {name, labels, value}. */
export function parseMetrics(text) {
  const out = [];
  for (const line of text.split("\n")) {
    const found = line.match(/^([a-z_:A-Z0-9]+)(?:\{(.*)\})? (\S+)$/);
    if (!found) continue;
    const labels = Object.fromEntries([...(found[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((pair) => [pair[1], pair[2]]));
    out.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return out;
}

const byId = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(1)} %`;

function columns(id, values, highest) {
  byId(id).replaceChildren(...values.map((value) => {
    const column = document.createElement("i");
    column.style.height = `${Math.max(0, Math.min(100, 100 * value / highest))}%`;
    column.title = value.toFixed(2);
    return column;
  }));
}

export class LiveView {
  constructor(fetchText) {
    this.fetchText = fetchText;
    this.before = null;
    this.rates = [];
  }

  start() { this.timer ??= setInterval(() => this.tick(), 1000); this.tick(); }
  stop() { clearInterval(this.timer); this.timer = null; this.before = null; }

  async tick() {
    if (document.hidden || this.busy) return;
    this.busy = true;
    try {
      this.show(parseMetrics(await this.fetchText("metrics")), performance.now() / 1000);
    } catch { /* the server is away; the next second tells */ }
    this.busy = false;
  }

  show(samples, now_s) {
    const all = (name) => samples.filter((sample) => sample.name === name);
    const total = (name) => all(name).reduce((sum, sample) => sum + sample.value, 0);
    byId("running").textContent = total("vllm:num_requests_running");
    byId("waiting").textContent = total("vllm:num_requests_waiting");
    const usage = total("vllm:kv_cache_usage_perc");
    byId("cache").style.width = percent(usage);
    byId("cache-share").textContent = percent(usage);
    const asked = total("vllm:prefix_cache_queries_total");
    byId("hits").textContent = asked > 0 ? `${percent(total("vllm:prefix_cache_hits_total") / asked)} of prompts` : "–";
    this.showRates({ generated: total("vllm:generation_tokens_total"), prompts: total("vllm:prompt_tokens_total"), now_s });
    this.showDrafts(total("vllm:spec_decode_num_drafts_total"), total("vllm:spec_decode_num_accepted_tokens_total"),
                    all("vllm:spec_decode_num_accepted_tokens_per_pos_total"));
    const load = all("glint:expert_load").filter((sample) => Number.isFinite(sample.value));
    columns("experts", load.map((sample) => sample.value), Math.max(1, ...load.map((sample) => sample.value)));
    if (load.length > 0) {
      byId("experts-text").textContent = `The busiest expert has up to ${Math.max(...load.map((sample) => sample.value)).toFixed(1)} times the mean of its layer.`;
    }
  }

  showRates(sample) {
    const before = this.before;
    this.before = sample;
    if (!before || sample.now_s <= before.now_s) return;
    const rate = (key) => Math.max(0, (sample[key] - before[key]) / (sample.now_s - before.now_s));
    byId("rate").textContent = rate("generated").toFixed(1);
    byId("prompt-rate").textContent = rate("prompts").toFixed(1);
    this.rates = [...this.rates, rate("generated")].slice(-HISTORY_SECONDS);
    const highest = Math.max(1, ...this.rates);
    const points = this.rates.map((value, i) => `${HISTORY_SECONDS - this.rates.length + i},${(39 - 38 * value / highest).toFixed(1)}`);
    byId("history").firstElementChild.setAttribute("d", "M" + points.join("L"));
  }

  showDrafts(drafts, accepted, positions) {
    if (drafts <= 0) return;
    const shares = positions.sort((a, b) => a.labels.position - b.labels.position).map((sample) => sample.value / drafts);
    columns("acceptance", shares, 1);
    byId("acceptance-length").textContent = `${(1 + accepted / drafts).toFixed(2)} tokens a step of a sequence`;
  }
}
