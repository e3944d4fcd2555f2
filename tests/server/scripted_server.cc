// The API server with a scripted model, for clients in other languages: prints its port, serves until it gets
// SIGTERM. GLINT_TEST_COLLECTOR: the URL of a trace collector.
//
// The answer depends on the prompt: its reasoning is "Effort E: thinking about TEXT.", its content "You said:
// TEXT", where TEXT is the last user message. If the request has tools and TEXT asks for the weather, a call
// of get_weather follows instead; a tool result gives "The tool said: RESULT".
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "api_fixture.h"
#include "base/log.h"
#include "byte_tokenizer.h"

namespace glint {
namespace {

/// What stands behind the last `open`, up to the next `close`.
std::string last_between(const std::string& text, std::string_view open, std::string_view close) {
  const size_t begin = text.rfind(open);
  if (begin == std::string::npos) return "";
  const size_t from = begin + open.size();
  return text.substr(from, text.find(close, from) - from);
}

FakeScript answer(const std::string& prompt) {
  const std::string effort = last_between(prompt, "Reasoning Effort: ", "<");
  const std::string text = last_between(prompt, "<|user|>", "<|");
  const bool result_last = prompt.rfind("<|observation|>") != std::string::npos &&
                           prompt.rfind("<|observation|>") > prompt.rfind("<|user|>");
  std::string out = "Effort " + effort + ": thinking about " + text + ".</think>";
  if (result_last) {
    out += "The tool said: " + last_between(prompt, "<tool_response>", "</tool_response>");
  } else if (prompt.find("# Tools") != std::string::npos && text.find("weather") != std::string::npos) {
    out +=
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Köln</arg_value>"
        "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>";
    FakeScript script = script_of(out);
    script.stop_token = kObservation;
    return script;
  } else {
    out += "You said: " + text;
  }
  return script_of(out);
}

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

void wait_for_end() {
  const sigset_t set = end_signals();
  int signal = 0;
  sigwait(&set, &signal);
}

void serve() {
  set_log_level(LogLevel::warning);
  ApiSettings settings;
  settings.model_names = {"glm-5.3"};
  settings.model_root = "scripted";
  settings.health.ready_within = std::chrono::milliseconds(0);
  if (const char* collector = std::getenv("GLINT_TEST_COLLECTOR")) settings.traces = trace_options(collector);
  HttpOptions http;
  http.host = "127.0.0.1";
  http.port = 0;
  ApiService service(settings, http, 2);
  service.start();
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  const auto engine = std::make_shared<FakeEngine>(service.sink(), tokenizer);
  engine->script = [&](const EngineRequest& request) {
    return answer(tokenizer->decode(request.prompt, false));
  };
  engine->run(std::chrono::microseconds(500));
  ServedModel model;
  model.engine = engine;
  model.tokenizer = tokenizer;
  model.chat_template = ChatTemplate::glm53();
  model.tags = std::make_shared<const OutputTags>(*tokenizer);
  model.primary_eos = kEndOfText;
  model.vocab_size = 154880;
  service.set_ready(std::move(model));
  std::printf("%d\n", service.http().port());
  std::fflush(stdout);
  wait_for_end();
  service.stop();
}

}  // namespace
}  // namespace glint

int main() {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = glint::end_signals();  // before there are threads
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  glint::serve();
}
