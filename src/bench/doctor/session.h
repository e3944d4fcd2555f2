// How the doctor talks to its patient.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bench/client/fetch.h"
#include "bench/doctor/doctor.h"

namespace glint::bench {

struct Reply {
  HttpReply http;
  Json json;  // null if the body is none

  [[nodiscard]] int status() const { return http.status; }
  /// "404 Not Found: ...": for findings.
  [[nodiscard]] std::string said() const { return failure_text(http); }
};

struct StreamReply {
  HttpReply http;
  std::vector<Json> chunks;  // in order, [DONE] left out
  bool done = false;         // [DONE] came, and last
  int behind_done = 0;       // events behind it
  std::string broken;        // an event that is no JSON

  /// Adds up choice `index`.
  struct Choice {
    std::string text, content, reasoning, finish;
    Json stop_reason;
    std::vector<Json> calls;  // {"id", "name", "arguments"} by index
    size_t chunks = 0;
  };
  [[nodiscard]] Choice choice(int64_t index = 0) const;
  [[nodiscard]] Json usage() const;  // of the last chunk that has one, or null
};

class Session {
 public:
  explicit Session(const DoctorOptions& options);

  [[nodiscard]] Reply get(const std::string& path, const HttpHeaders& headers = {}) const;
  [[nodiscard]] Reply send(const std::string& method, const std::string& path, const HttpHeaders& headers,
                           const std::string& body) const;
  [[nodiscard]] Reply post(const std::string& path, const OrderedJson& body,
                           const HttpHeaders& headers = {}) const;
  /// POST with "stream": true.
  [[nodiscard]] StreamReply stream(const std::string& path, OrderedJson body) const;
  /// Begins a stream and breaks the connection behind its first event; the id of the answer.
  [[nodiscard]] bool break_stream(const std::string& path, OrderedJson body) const;

  /// A chat body with one user message; `more` is merged in.
  [[nodiscard]] OrderedJson chat(std::string_view text,
                                 const OrderedJson& more = OrderedJson::object()) const;
  /// A completions body.
  [[nodiscard]] OrderedJson completion(const OrderedJson& prompt,
                                       const OrderedJson& more = OrderedJson::object()) const;

  [[nodiscard]] const std::string& model() const { return model_; }
  [[nodiscard]] const std::string& api_key() const { return api_key_; }
  [[nodiscard]] int64_t max_model_len() const { return max_model_len_; }  // 0: not told
  [[nodiscard]] const Target& target() const { return target_; }

 private:
  [[nodiscard]] HttpHeaders with_key(HttpHeaders headers) const;
  void choose_model(const std::string& wanted);

  Target target_;
  std::string api_key_;
  double timeout_s_;
  std::string model_;
  int64_t max_model_len_ = 0;
};

/// True if the reply says that the server does not have this: 404, 405, 501, or a 400 that says "not
/// supported" or "not implemented". Then `findings` has it as missing.
bool is_missing(const Reply& reply, Findings& findings);
/// 200 with JSON. If not: missing or a failure, and false.
bool is_good(const Reply& reply, Findings& findings);
/// A stream of chunks. If not: missing or a failure, and false.
bool is_good(const StreamReply& reply, Findings& findings);

/// A member, null if there is none (or `value` is no object).
const Json& member(const Json& value, std::string_view name);
/// The text of a member, "" if it is none.
std::string text_of(const Json& value, std::string_view name);
/// The number of a member, -1 if it is none.
int64_t number_of(const Json& value, std::string_view name);
/// The first choice of an answer, null if there is none.
const Json& first_choice(const Json& answer);
/// reasoning or reasoning_content of a message or delta.
std::string reasoning_of(const Json& message);
/// At most 60 bytes of it, in quotes.
std::string shown(std::string_view text);

struct DoctorCheck {
  std::string name;  // "chat: stream order"
  std::function<void(const Session&, Findings&)> run;
};

// The checks by subject, one source file each.
void add_basic_checks(std::vector<DoctorCheck>& checks);
void add_chat_checks(std::vector<DoctorCheck>& checks);
void add_sampling_checks(std::vector<DoctorCheck>& checks);
void add_completion_checks(std::vector<DoctorCheck>& checks);
void add_tool_checks(std::vector<DoctorCheck>& checks);
void add_error_checks(std::vector<DoctorCheck>& checks);
void add_structured_checks(std::vector<DoctorCheck>& checks);
void add_other_api_checks(std::vector<DoctorCheck>& checks);

}  // namespace glint::bench
