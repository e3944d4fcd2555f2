#include "chat_client.h"

#include <array>

#include "base/error.h"
#include "chat_text.h"
#include "server/sse_reader.h"

namespace glint {

namespace {

using Clock = std::chrono::steady_clock;

/// A string member, or an empty text.
std::string text_of(const OrderedJson& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<int64_t> number_of(const OrderedJson& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

OrderedJson member(const OrderedJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? OrderedJson(nullptr) : *found;
}

/// OpenAI's {"error": {"message"}}, FastAPI's {"detail"}, or the text itself.
std::string error_text(const std::string& body) {
  std::string text = body.substr(0, 500);
  try {
    const OrderedJson json = parse_ordered_json(body, "the answer");
    const OrderedJson error = member(json, "error");
    for (const std::string& found : {text_of(error, "message"), text_of(json, "message"),
                                     text_of(json, "error"), text_of(json, "detail")}) {
      if (found.empty()) continue;
      text = found;
      break;
    }
  } catch (const Error&) {
  }
  return harmless_line(text);
}

[[noreturn]] void refuse(HttpCall& call) {
  const int status = call.status();
  fail(ErrorKind::bad_input, "the server says ", status, " ", status_phrase(status), ": ",
       error_text(call.read_all(1 << 20)));
}

/// Puts an answer together out of its chunks.
class Assembler {
 public:
  Assembler(ChatAnswer& answer, const ChatClient::OnPiece& on_piece) : answer_(answer), on_piece_(on_piece) {}

  void take(const std::string& data) {
    const OrderedJson chunk = parse_ordered_json(data, "a chunk of the answer");
    if (chunk.is_object() && chunk.contains("error") && !chunk.at("error").is_null()) {
      fail(ErrorKind::bad_input, "the server says: ", error_text(data));
    }
    take_usage(member(chunk, "usage"));
    const OrderedJson choices = member(chunk, "choices");
    if (!choices.is_array() || choices.empty()) return;
    const OrderedJson& choice = choices.front();
    if (const std::string finish = text_of(choice, "finish_reason"); !finish.empty()) answer_.finish = finish;
    const OrderedJson delta = member(choice, "delta");
    for (const char* name : {"reasoning", "reasoning_content"}) {
      const std::string piece = text_of(delta, name);
      if (piece.empty()) continue;
      if (reasoning_name_.empty()) reasoning_name_ = name;
      if (reasoning_name_ != name) continue;  // a server that sends both names sends the text twice
      reasoning_ += piece;
      show(ChatPiece::reasoning, piece);
    }
    if (const std::string piece = text_of(delta, "content"); !piece.empty()) {
      content_ += piece;
      show(ChatPiece::content, piece);
    }
    take_calls(member(delta, "tool_calls"));
  }

  void finish() {
    answer_.message = {{"role", "assistant"}, {"content", content_}};
    if (!reasoning_.empty()) answer_.message[reasoning_name_] = reasoning_;
    // A call that was cut off in its arguments could not be sent back.
    OrderedJson whole = OrderedJson::array();
    for (const OrderedJson& call : calls_) {
      if (call.is_object() && (!answer_.stopped || Json::accept(text_of(call.at("function"), "arguments"))))
        whole.push_back(call);
    }
    if (!whole.empty()) answer_.message["tool_calls"] = whole;
  }

 private:
  void show(ChatPiece kind, const std::string& piece) {
    const double now = std::chrono::duration<double>(Clock::now() - begin_).count();
    if (answer_.pieces++ == 0) answer_.first_s = now;
    answer_.last_s = now;
    if (on_piece_) on_piece_(kind, piece);
  }

  void take_usage(const OrderedJson& usage) {
    if (!usage.is_object()) return;
    answer_.prompt_tokens = number_of(usage, "prompt_tokens");
    answer_.completion_tokens = number_of(usage, "completion_tokens");
    answer_.reasoning_tokens = number_of(member(usage, "completion_tokens_details"), "reasoning_tokens");
    answer_.cached_tokens = number_of(member(usage, "prompt_tokens_details"), "cached_tokens");
  }

  void take_calls(const OrderedJson& deltas) {
    if (!deltas.is_array()) return;
    for (const OrderedJson& delta : deltas) {
      const int64_t index = number_of(delta, "index").value_or(0);
      if (index < 0 || index > 255)
        fail(ErrorKind::bad_input, "the server sends a tool call of index ", index);
      while (static_cast<int64_t>(calls_.size()) <= index) {
        calls_.push_back({{"id", ""}, {"type", "function"}, {"function", {{"name", ""}, {"arguments", ""}}}});
      }
      OrderedJson& call = calls_[static_cast<size_t>(index)];
      if (const std::string id = text_of(delta, "id"); !id.empty()) call["id"] = id;
      const OrderedJson function = member(delta, "function");
      if (const std::string name = text_of(function, "name"); !name.empty()) call["function"]["name"] = name;
      OrderedJson& arguments = call["function"]["arguments"];
      arguments = arguments.get<std::string>() + text_of(function, "arguments");
      ++answer_.pieces;
      answer_.last_s = std::chrono::duration<double>(Clock::now() - begin_).count();
      if (answer_.pieces == 1) answer_.first_s = answer_.last_s;
    }
  }

  ChatAnswer& answer_;
  const ChatClient::OnPiece& on_piece_;
  Clock::time_point begin_ = Clock::now();
  std::string reasoning_name_, reasoning_, content_;
  std::vector<OrderedJson> calls_;
};

}  // namespace

ChatClient::ChatClient(HttpUrl url, std::string key) : url_(std::move(url)), key_(std::move(key)) {
  if (url_.path.empty()) url_.path = "/v1";
}

ClientRequest ChatClient::request(const std::string& method, const std::string& route) const {
  ClientRequest request;
  request.method = method;
  request.target = url_.path + route;
  if (!key_.empty()) request.headers.push_back({"Authorization", cat("Bearer ", key_)});
  return request;
}

std::vector<std::string> ChatClient::models() {
  HttpCall call(url_, request("GET", "/models"), -1, {.silence = std::chrono::seconds(30)});
  if (call.status() != 200) refuse(call);
  const OrderedJson body = parse_ordered_json(call.read_all(), "the list of models");
  std::vector<std::string> names;
  const OrderedJson data = member(body, "data");
  if (!data.is_array()) fail(ErrorKind::bad_input, "the server's list of models has no \"data\"");
  for (const OrderedJson& model : data) names.push_back(text_of(model, "id"));
  return names;
}

ChatAnswer ChatClient::complete(OrderedJson body, int cancel_fd, const OnPiece& on_piece) {
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  ClientRequest asked = request("POST", "/chat/completions");
  asked.headers.push_back({"Content-Type", "application/json"});
  asked.headers.push_back({"Accept", "text/event-stream"});
  asked.body = dump_json(body);
  ChatAnswer answer;
  Assembler assembler(answer, on_piece);
  HttpCall call(url_, asked, cancel_fd);
  if (!call.cancelled() && call.status() != 200) refuse(call);
  SseReader events;
  bool done = call.cancelled();
  while (!done) {
    const std::string piece = call.read();
    if (piece.empty()) break;
    for (const std::string& data : events.push(piece)) {
      done = done || data == "[DONE]";
      if (!done) assembler.take(data);
    }
  }
  answer.stopped = call.cancelled();
  if (!done && !answer.stopped) fail(ErrorKind::io, "the server's answer broke off");
  assembler.finish();
  return answer;
}

}  // namespace glint
