#include "bench/claim_examples.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"

namespace glint::bench {

namespace {

/// Calls body(line, place) for every line of a file of JSON lines.
template <class Body>
void each_line(const std::filesystem::path& path, const Body& body) {
  const std::string text = read_file(path);
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string place = cat(path.string(), " line ", ++number);
    try {
      body(std::string_view(text).substr(at, end - at), place);
    } catch (const nlohmann::json::exception& error) {
      fail(ErrorKind::bad_input, place, ": ", error.what());
    }
    at = end + 1;
  }
}

/// `count` of all, evenly spread (0: all).
template <class T>
std::vector<T> spread(std::vector<T> all, int64_t count) {
  const auto size = static_cast<int64_t>(all.size());
  if (count <= 0 || count >= size) return all;
  std::vector<T> some;
  for (int64_t i = 0; i < count; ++i) some.push_back(std::move(all[static_cast<size_t>(i * size / count)]));
  return some;
}

size_t effort_of(const std::string& name, const std::string& place) {
  const auto* found = std::find(kEfforts.begin(), kEfforts.end(), name);
  if (found == kEfforts.end())
    fail(ErrorKind::bad_input, place, ": effort ", name, ": expected low, high or max");
  return static_cast<size_t>(found - kEfforts.begin());
}

}  // namespace

std::vector<ClaimExample> read_claim_examples(const std::filesystem::path& path,
                                              const std::vector<std::string>& claims, int64_t examples_max) {
  std::vector<ClaimExample> examples;
  std::map<std::string, int64_t> taken;
  each_line(path, [&](std::string_view line, const std::string& place) {
    // The request goes on as text: what the server makes of it depends on the order of keys and the form of
    // numbers.
    const OrderedJson json = parse_ordered_json(line, place);
    const std::string claim = json.at("claim");
    if (!claims.empty() && std::find(claims.begin(), claims.end(), claim) == claims.end()) return;
    if (examples_max > 0 && taken[claim] >= examples_max) return;
    ++taken[claim];
    const std::string name = json.at("effort");
    examples.push_back({claim, json.at("task"), effort_of(name, place), dump_json(json.at("request")),
                        parse_json(dump_json(json.at("answer")), place)});
  });
  return examples;
}

std::vector<GreedyText> read_greedy_texts(const std::filesystem::path& path, int64_t count) {
  std::vector<GreedyText> all;
  each_line(path, [&](std::string_view line, const std::string& place) {
    const Json json = parse_json(line, place);
    all.push_back({json.at("prompt"), json.at("text"), json.at("tokens")});
  });
  return spread(std::move(all), count);
}

std::vector<ReferenceText> read_reference_texts(const std::filesystem::path& path,
                                                const std::filesystem::path& greedy, int64_t count) {
  const std::vector<GreedyText> texts = read_greedy_texts(greedy, 0);
  std::vector<ReferenceText> all;
  each_line(path, [&](std::string_view line, const std::string& place) {
    const Json json = parse_json(line, place);
    const size_t text = json.at("text");
    if (text >= texts.size())
      fail(ErrorKind::bad_input, place, ": text ", text, ": ", greedy.string(), " has ", texts.size());
    all.push_back({texts[text], json.at("logits"), json.at("steps")});
    const auto logits = static_cast<int64_t>(all.back().logits.size());
    if (logits != texts[text].tokens)
      fail(ErrorKind::bad_input, place, ": ", logits, " logits for ", texts[text].tokens, " tokens");
  });
  return spread(std::move(all), count);
}

}  // namespace glint::bench
