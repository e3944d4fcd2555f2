// A whole API server on a scripted engine, and what tests ask of it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "fake_engine.h"
#include "raw_client.h"
#include "server/api_service.h"

namespace glint {

/// The accumulated result of a chat stream, as a client library builds it.
struct StreamResult {
  std::string reasoning, content;
  struct Call {
    std::string id, name, arguments;
  };
  std::vector<Call> calls;
  std::string finish_reason;
  OrderedJson stop_reason, usage;
  std::vector<OrderedJson> chunks;  // in order, [DONE] left out
  bool done = false;                // [DONE] was the last event
  std::string error;                // of an error event
};

class ApiTest : public ::testing::Test {
 protected:
  ApiTest();
  ~ApiTest() override;

  /// Before the first request: `settings` and `http` may be changed up to here.
  void start(bool ready = true);
  void make_ready();
  /// Grammars over the tokenizer's ids: before start().
  void use_grammars();
  [[nodiscard]] int port() const { return service->http().port(); }

  [[nodiscard]] RawResponse post(std::string_view path, const OrderedJson& body) const;
  [[nodiscard]] RawResponse chat(OrderedJson body) const;
  [[nodiscard]] StreamResult chat_stream(OrderedJson body) const;

  /// After `own` has sent its request of another API: the answer's masks are those of the chat request
  /// `twin`, along walks of three seeds.
  void expect_masks_of_chat(const char* what, const std::function<void()>& own, const OrderedJson& twin,
                            bool constrained);

  ApiSettings settings;
  HttpOptions http;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<ApiService> service;
  std::shared_ptr<FakeEngine> engine;
  SamplingDefaults defaults;
  std::shared_ptr<GrammarCache> grammars;  // none unless a test sets it
  bool automatic_steps = true;
};

/// Adds the events of a stream up; unknown shapes fail the test.
StreamResult read_chat_stream(std::string_view sse_text);

/// {"messages": [{"role": "user", "content": text}]}
OrderedJson user_request(std::string_view text = "Hi");

/// What the constraint of an answer allows along a random walk of `tokens` tokens that it allows: equal texts
/// are equal constraints, as far as the walk went. "free" without a constraint.
std::string walk_constraint(const SamplingParams& sampling, uint32_t seed, int tokens = 120);

template <class Condition>
bool eventually(Condition condition, int timeout_ms = 5000) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

}  // namespace glint
