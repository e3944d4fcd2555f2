#include "bench/serve/stream_outcome.h"

#include "base/error.h"
#include "base/json.h"
#include "bench/client/connection.h"
#include "bench/client/fetch.h"

namespace glint::bench {

namespace {

int64_t count_of(const Json& usage, const char* name) {
  const auto found = usage.find(name);
  return found != usage.end() && found->is_number() ? found->get<int64_t>() : 0;
}

void append_text(const Json& choice, StreamFormat format, std::string& text) {
  const Json* holder = &choice;
  const char* name = "text";
  if (format == StreamFormat::chat) {
    const auto delta = choice.find("delta");
    if (delta == choice.end() || !delta->is_object()) return;
    holder = &*delta;
    name = "content";
  }
  const auto found = holder->find(name);
  if (found != holder->end() && found->is_string()) text += found->get_ref<const std::string&>();
}

}  // namespace

void StreamListener::feed(std::string_view bytes, double at_s, RequestOutcome& outcome) {
  events_.feed(bytes, [&](std::string_view data) { take(data, at_s, outcome); });
}

void StreamListener::take(std::string_view data, double at_s, RequestOutcome& outcome) {
  if (data == "[DONE]" || !outcome.error.empty()) return;
  if (clock_ == ChunkClock::compat && format_ == StreamFormat::chat) at_s = now_s();
  Json chunk;
  try {
    chunk = parse_json(data, "chunk");
  } catch (const Error& error) {
    outcome.error = cat("a chunk that is no JSON: ", error.what());
    return;
  }
  if (clock_ == ChunkClock::compat && format_ == StreamFormat::completions) at_s = now_s();
  if (!chunk.is_object()) return;
  const auto choices = chunk.find("choices");
  if (choices != chunk.end() && choices->is_array() && !choices->empty()) {
    if (first_seen_) {
      outcome.itl_s.push_back(at_s - last_s_);
    } else {
      first_seen_ = true;
      outcome.ttft_s = at_s - outcome.start_s;
    }
    last_s_ = at_s;
    if (choices->front().is_object()) append_text(choices->front(), format_, outcome.text);
  } else if (chunk.contains("error")) {
    outcome.error = "the stream ended with an error: " + error_message(data);
  } else if (chunk.contains("usage") && chunk["usage"].is_object()) {
    outcome.output_tokens = count_of(chunk["usage"], "completion_tokens");
    if (const int64_t tokens = count_of(chunk["usage"], "prompt_tokens"); tokens > 0) {
      outcome.prompt_tokens = tokens;
    }
  }
}

void StreamListener::finish(RequestOutcome& outcome) const {
  if (!outcome.error.empty()) return;
  if (!first_seen_) {
    outcome.error = "Never received a valid chunk to calculate TTFT. This response will be marked as failed!";
    return;
  }
  outcome.success = true;
  outcome.latency_s = last_s_ - outcome.start_s;
}

}  // namespace glint::bench
