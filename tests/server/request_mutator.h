// Broken HTTP requests, from good ones: bytes, lines, headers, chunks, JSON trees and JSON text are changed
// at random.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace glint {

class RequestMutator {
 public:
  struct Route {
    std::string path;
    bool get = false, post = false;
  };

  /// `routes` as ApiService::route_list() has them.
  RequestMutator(const std::vector<std::string>& routes, uint64_t seed);

  /// The bytes of one connection; the same for the same seed.
  std::string next();
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  /// True once in n times.
  bool once_in(size_t n) { return below(n) == 0; }

 private:
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  // JSON
  std::string body();
  OrderedJson seed_body();
  OrderedJson value(int depth);
  void change_tree(OrderedJson& tree);
  void change_text(std::string& text);
  // HTTP
  std::string request();
  std::string header_lines(size_t body_bytes, bool& chunked);
  std::string chunks(const std::string& text);
  void change_bytes(std::string& text);

  std::mt19937_64 random_;
  std::vector<Route> routes_;
};

}  // namespace glint
