// Errors of a chat request that was made from a request of another API, told in that request's own words.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "text/request_error.h"

namespace glint {

class FieldNames {
 public:
  /// The place `chat` of the chat request, and what stands below it, came from `own`. Of several places that
  /// fit the longest counts.
  void add(std::string chat, std::string own);

  /// `error` with every name in param and message as the client wrote it. What the message quotes ("...") is
  /// the client's text and stays.
  [[nodiscard]] ApiError in_own_words(ApiError error) const;

 private:
  [[nodiscard]] std::string translated(std::string_view text) const;

  std::vector<std::pair<std::string, std::string>> names_;  // the longest first
};

/// Calls `make`; refusals that it throws come in the words of `names`.
template <class Make>
auto in_own_words(const FieldNames& names, const Make& make) {
  try {
    return make();
  } catch (const ApiRefusal& refusal) {
    throw ApiRefusal(names.in_own_words(refusal.error()));
  } catch (const RequestError& refusal) {
    throw ApiRefusal(names.in_own_words(error_of(refusal)));
  }
}

}  // namespace glint
