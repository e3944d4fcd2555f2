#include "checkpoint/index.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "tensor/safetensors.h"

namespace glint {

namespace {

constexpr int kDepthMax = 64;

/// Takes weight_map out of the document and lets everything else pass.
class IndexReader : public nlohmann::json_sax<Json> {
 public:
  explicit IndexReader(std::string_view what) : what_(what) {}

  CheckpointIndex index;

  [[nodiscard]] bool seen_map() const { return seen_map_; }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(number_integer_t) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a number"); }
  bool binary(binary_t&) override { return value("binary"); }

  bool string(string_t& text) override {
    if (!in_map_) return value("a string");
    index.tensors.emplace_back(std::move(key_), file_number(text));
    return true;
  }

  bool start_object(std::size_t) override {
    if (in_map_) return value("an object");
    if (depth_ == 1 && key_ == "weight_map") {
      if (seen_map_) fail(ErrorKind::bad_input, what_, ": weight_map stands twice");
      in_map_ = seen_map_ = true;
    }
    return descend();
  }

  bool end_object() override {
    in_map_ = false;
    --depth_;
    return true;
  }

  bool start_array(std::size_t) override {
    value("a list");
    return descend();
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ == 1 || in_map_) key_ = std::move(text);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(ErrorKind::bad_input, what_, ": not valid JSON at its byte ", position);
  }

 private:
  /// A value that is not a string in weight_map, and not an object as the document or as weight_map.
  bool value(std::string_view found) {
    if (depth_ == 0) fail(ErrorKind::bad_input, what_, ": is ", found, ", expected an object");
    if (in_map_)
      fail(ErrorKind::bad_input, what_, ": the shard of ", json_quoted(key_), " is ", found,
           ", expected a string");
    if (depth_ == 1 && key_ == "weight_map")
      fail(ErrorKind::bad_input, what_, ": weight_map is ", found, ", expected an object");
    return true;
  }

  bool descend() {
    if (++depth_ > kDepthMax)
      fail(ErrorKind::bad_input, what_, ": nested deeper than ", kDepthMax, " levels");
    return true;
  }

  uint32_t file_number(const std::string& name) {
    const auto [at, added] = numbers_.try_emplace(name, static_cast<uint32_t>(index.files.size()));
    if (!added) return at->second;
    const bool plain = name.size() > 12 && name.ends_with(".safetensors") &&
                       name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      fail(ErrorKind::bad_input, what_, ": the shard of ", json_quoted(key_), " is ", json_quoted(name),
           ", expected the name of a .safetensors file in the same folder");
    }
    index.files.push_back(name);
    return at->second;
  }

  std::string_view what_;
  int depth_ = 0;
  bool in_map_ = false;
  bool seen_map_ = false;
  std::string key_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

}  // namespace

CheckpointIndex parse_checkpoint_index(std::string_view text, std::string_view what) {
  IndexReader reader(what);
  GLINT_CHECK(Json::sax_parse(text, &reader));
  if (!reader.seen_map()) fail(ErrorKind::bad_input, what, ": has no weight_map");
  auto& tensors = reader.index.tensors;
  std::sort(tensors.begin(), tensors.end());
  const auto twin = std::adjacent_find(tensors.begin(), tensors.end(),
                                       [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twin != tensors.end())
    fail(ErrorKind::bad_input, what, ": tensor ", json_quoted(twin->first), " stands twice");
  return std::move(reader.index);
}

std::string checkpoint_index_text(std::vector<std::pair<std::string, std::string>> tensors,
                                  int64_t total_bytes) {
  std::sort(tensors.begin(), tensors.end());
  std::string text =
      cat("{\n  \"metadata\": {\n    \"total_size\": ", total_bytes, "\n  },\n  \"weight_map\": {");
  const char* separator = "\n    ";
  for (const auto& [tensor, file] : tensors) {
    text += cat(separator, json_quoted(tensor), ": ", json_quoted(file));
    separator = ",\n    ";
  }
  return text + "\n  }\n}\n";
}

}  // namespace glint
