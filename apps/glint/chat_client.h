// Talks to a server of the OpenAI API on behalf of `glint chat`.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/http_client.h"

namespace glint {

/// One streamed answer, put together.
struct ChatAnswer {
  OrderedJson message;  // role, content, reasoning under the server's name for it, tool_calls
  std::string finish;   // "stop", "length", "tool_calls", ...; empty if it was stopped here
  bool stopped = false;
  std::optional<int64_t> prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
  int64_t pieces = 0;  // chunks with text
  double first_s = 0;  // from the request to the first piece
  double last_s = 0;   // and to the last
};

enum class ChatPiece { reasoning, content };

class ChatClient {
 public:
  /// `url` is the server's base: "/v1" is added if it has no path. `key` may be empty.
  ChatClient(HttpUrl url, std::string key);

  /// The ids of GET /models. Throws io and what the server said.
  std::vector<std::string> models();

  using OnPiece = std::function<void(ChatPiece, const std::string&)>;
  /// POST /chat/completions with `body` (stream set here). Pieces go to `on_piece` as they come. Readable
  /// `cancel_fd`: the connection is closed, which ends the generation, and what came so far is returned.
  /// Throws io, or bad_input with the server's own words for a refusal or an error event.
  ChatAnswer complete(OrderedJson body, int cancel_fd, const OnPiece& on_piece);

 private:
  [[nodiscard]] ClientRequest request(const std::string& method, const std::string& route) const;

  HttpUrl url_;
  std::string key_;
};

}  // namespace glint
