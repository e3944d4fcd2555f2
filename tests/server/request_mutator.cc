#include "request_mutator.h"

#include <algorithm>

#include "base/error.h"
#include "fuzz_corpus.h"

namespace glint {

namespace {

void collect(OrderedJson& tree, std::vector<OrderedJson*>& nodes) {
  nodes.push_back(&tree);
  if (tree.is_structured()) {
    for (OrderedJson& child : tree) collect(child, nodes);
  }
}

}  // namespace

RequestMutator::RequestMutator(const std::vector<std::string>& routes, uint64_t seed) : random_(seed) {
  for (const std::string& line : routes) {
    const auto comma = line.find(',');
    routes_.push_back({line.substr(0, comma), line.find("GET", comma) != std::string::npos,
                       line.find("POST", comma) != std::string::npos});
  }
}

// ---------------------------------------------------------------------------------------------------- JSON

OrderedJson RequestMutator::seed_body() {
  return OrderedJson::parse(one_of(fuzz_seed_bodies()));
}

OrderedJson RequestMutator::value(int depth) {
  switch (below(depth > 3 ? 7 : 9)) {
    case 0:
      return nullptr;
    case 1:
      return once_in(2);
    case 2:
      return static_cast<int64_t>(below(300)) - 50;
    case 3:
      return one_of(
          std::vector<int64_t>{INT64_MIN, INT64_MAX, 1LL << 31, -(1LL << 31), 1LL << 53, 154880, 1000000});
    case 4:
      return one_of(std::vector<double>{0.5, -0.5, 1e308, -1e308, 1e-320, 2.5, 1e19});
    case 5:
    case 6:
      return one_of(fuzz_strings());
    case 7: {
      OrderedJson list = OrderedJson::array();
      for (size_t i = below(4); i > 0; --i) list.push_back(value(depth + 1));
      return list;
    }
    default: {
      OrderedJson object = OrderedJson::object();
      for (size_t i = below(4); i > 0; --i) object[one_of(fuzz_field_names())] = value(depth + 1);
      return object;
    }
  }
}

void RequestMutator::change_tree(OrderedJson& tree) {
  std::vector<OrderedJson*> nodes;
  collect(tree, nodes);
  OrderedJson& node = *one_of(nodes);
  switch (below(6)) {
    case 0:
    case 1:
      node = value(0);
      break;
    case 2:
      if (node.is_object()) {
        node[one_of(fuzz_field_names())] = value(0);
      } else {
        node = value(1);
      }
      break;
    case 3:
      if (node.is_object() && !node.empty()) {
        auto at = node.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(below(node.size())));
        node.erase(at);
      }
      break;
    case 4: {  // types swapped: another part of the request in its place
      const OrderedJson other = *one_of(nodes);
      node = other;
      break;
    }
    default: {
      OrderedJson wrapped = OrderedJson::array();
      for (size_t i = 1 + below(3); i > 0; --i) wrapped.push_back(node);
      node = wrapped;
      break;
    }
  }
}

void RequestMutator::change_text(std::string& text) {
  switch (below(8)) {
    case 0: {  // a value becomes text that may not even be JSON
      const size_t colon = text.find(':', below(text.size() + 1));
      if (colon == std::string::npos) break;
      const size_t end = text.find_first_of(",}]", colon);
      text.replace(colon + 1, end == std::string::npos ? end : end - colon - 1, one_of(fuzz_raw_values()));
      break;
    }
    case 1: {  // deep
      const size_t depth = one_of(std::vector<size_t>{60, 70, 200, 5000, 100'000});
      const bool closed = once_in(2);
      const std::string open = once_in(2) ? "[" : "{\"a\":";
      std::string deep;
      for (size_t i = 0; i < depth; ++i) deep += open;
      deep += "1";
      if (closed) deep += std::string(depth, open == "[" ? ']' : '}');
      const size_t colon = text.find(':', below(text.size() + 1));
      text.insert(colon == std::string::npos ? 0 : colon + 1, deep);
      break;
    }
    case 2: {  // a key twice
      const size_t brace = text.find('{', below(text.size() + 1));
      if (brace != std::string::npos) text.insert(brace + 1, "\"" + one_of(fuzz_field_names()) + "\":1,");
      break;
    }
    case 3:
      text.resize(below(text.size() + 1));
      break;
    case 4:
      text += one_of(fuzz_raw_values());
      break;
    case 5:
      if (once_in(8)) text.insert(text.size() / 2, std::string(300'000, ' '));
      break;
    default:
      change_bytes(text);
      break;
  }
}

std::string RequestMutator::body() {
  if (once_in(40)) return one_of(fuzz_raw_values());
  OrderedJson tree = seed_body();
  for (size_t i = below(4); i > 0; --i) change_tree(tree);
  std::string text = dump_json(tree);
  for (size_t i = once_in(2) ? below(3) : 0; i > 0 && !text.empty(); --i) change_text(text);
  return text;
}

// ---------------------------------------------------------------------------------------------------- HTTP

void RequestMutator::change_bytes(std::string& text) {
  for (size_t edit = 1 + below(4); edit > 0 && !text.empty(); --edit) {
    const size_t at = below(text.size());
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        text.insert(at, 1 + below(3), "{}[],:\"0-e\\n\r\n\0 "[below(17)]);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), below(30)));
        break;
      default:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
    }
  }
}

std::string RequestMutator::chunks(const std::string& text) {
  std::string out;
  size_t at = 0;
  const size_t broken = once_in(3) ? below(4) : SIZE_MAX;
  for (size_t index = 0; at < text.size(); ++index) {
    const size_t bytes = std::min(text.size() - at, 1 + below(200));
    char size[24];
    std::snprintf(size, sizeof size, "%zx", bytes + (index == broken && once_in(3) ? below(9) : 0));
    out += index == broken && once_in(2) ? one_of(fuzz_chunk_sizes()) : size;
    if (once_in(20)) out += ";name=\"v\"";
    out += index == broken && once_in(4) ? "\n" : "\r\n";
    out += text.substr(at, bytes) + "\r\n";
    at += bytes;
  }
  out += once_in(20) ? "00" : "0";
  out += "\r\n";
  if (once_in(6)) out += one_of(fuzz_odd_headers()) + "\r\n";
  return out + "\r\n";
}

std::string RequestMutator::header_lines(size_t body_bytes, bool& chunked) {
  Texts lines = {"Host: localhost"};
  if (!once_in(30)) lines.push_back("Content-Type: application/json");
  chunked = once_in(4);
  if (chunked) {
    lines.push_back("Transfer-Encoding: chunked");
  } else if (!once_in(40)) {
    size_t told = body_bytes;
    if (once_in(25)) told += below(20);
    if (once_in(25)) told -= std::min(told, below(20));
    lines.push_back(cat("Content-Length: ", told));
  }
  if (!once_in(8)) lines.push_back("Connection: close");
  for (size_t i = once_in(3) ? below(3) : 0; i > 0; --i) lines.push_back(one_of(fuzz_odd_headers()));
  if (once_in(100)) {
    for (int i = 0; i < 300; ++i) lines.push_back(cat("X-", i, ": ", i));
  }
  std::shuffle(lines.begin(), lines.end(), random_);
  std::string text;
  for (const std::string& line : lines) text += line + (once_in(200) ? "\n" : "\r\n");
  return text + "\r\n";
}

std::string RequestMutator::request() {
  const Route& route = one_of(routes_);
  std::string method = route.post && !(route.get && once_in(2)) ? "POST" : "GET";
  if (once_in(20)) method = one_of(fuzz_methods());
  std::string target = route.path;
  if (once_in(12)) {
    target = one_of(Texts{"*", "http://localhost" + target, "http://localhost", "//" + target, target + "/",
                          target + "?a=b&c=%00", target + "#x", "/%76%31/models", "/v1/../health",
                          "/v1/models\x01", "", "/" + std::string(9000, 'p'), "/v1/responses/resp_1",
                          "/v1/responses/x/cancel", "ftp://a/b", target + " extra"});
  }
  const std::string version = once_in(30) ? one_of(Texts{"HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "http/1.1",
                                                         "HTTP/1.12", "HTTP/1", "", "HTTP/1.1 "})
                                          : "HTTP/1.1";
  const std::string content = method == "GET" && !once_in(10) ? "" : body();
  bool chunked = false;
  std::string text = method + " " + target + " " + version + "\r\n";
  text += header_lines(content.size(), chunked);
  text += chunked ? chunks(content) : content;
  return text;
}

std::string RequestMutator::next() {
  std::string text = request();
  if (once_in(10)) text += request();  // pipelined
  if (once_in(6)) change_bytes(text);
  if (once_in(25)) text.resize(below(text.size() + 1));
  return text;
}

}  // namespace glint
