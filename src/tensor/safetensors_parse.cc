#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "tensor/safetensors.h"

namespace glint {

namespace {

constexpr size_t kNameBytesShown = 300;

std::string shown(std::string_view name) {
  if (name.size() <= kNameBytesShown) return json_quoted(name);
  // The name passed the JSON parser, so it is valid UTF-8; cut it at the start of a character.
  size_t cut = kNameBytesShown;
  while ((static_cast<unsigned char>(name[cut]) & 0xC0U) == 0x80U) --cut;
  return json_quoted(name.substr(0, cut)) + "...";
}

/// Receives the header's JSON events and accepts exactly: an object of tensors and at most one __metadata__.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(std::string_view what) : what_(what) {}

  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string> metadata;

  bool null() override { return refuse_value("null"); }
  bool boolean(bool) override { return refuse_value("a boolean"); }
  bool number_integer(number_integer_t value) override { return refuse_value(cat("the number ", value)); }
  bool number_float(number_float_t, const string_t& text) override {
    return refuse_value("the number " + text.substr(0, 40));
  }
  bool binary(binary_t&) override { return refuse_value("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) return refuse_value(cat("the number ", value));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      refuse("the number ", value, " is too large");
    std::vector<int64_t>& numbers = place_ == Place::shape ? tensors.back().shape : offsets_;
    if (numbers.size() == kRankMax) refuse("more than ", kRankMax, " numbers in ", field_);
    numbers.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (!metadata.emplace(key_, value).second) refuse("the key ", shown(key_), " stands twice");
      return true;
    }
    if (place_ != Place::tensor || field_ != "dtype") return refuse_value("a string");
    const auto dtype = parse_dtype(value);
    if (!dtype) refuse("dtype ", shown(value), " is unknown, expected one like BF16, F32, F8_E4M3 or U8");
    tensors.back().dtype = *dtype;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::start:
        place_ = Place::root;
        return true;
      case Place::root:
        place_ = key_ == "__metadata__" ? Place::metadata : Place::tensor;
        break;
      default:
        return refuse_value("an object");
    }
    if (place_ == Place::metadata) {
      if (metadata_seen_) refuse("__metadata__ stands twice");
      metadata_seen_ = true;
      return true;
    }
    tensors.emplace_back().name = key_;
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    offsets_.clear();
    return true;
  }

  bool key(string_t& value) override {
    if (place_ != Place::tensor) {
      key_ = std::move(value);
      return true;
    }
    field_ = std::move(value);
    bool* const seen = field_ == "dtype"          ? &seen_dtype_
                       : field_ == "shape"        ? &seen_shape_
                       : field_ == "data_offsets" ? &seen_offsets_
                                                  : nullptr;
    if (seen == nullptr) refuse("unknown field ", shown(field_), ", expected dtype, shape and data_offsets");
    if (*seen) refuse("the field ", field_, " stands twice");
    *seen = true;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) end_tensor();
    place_ = place_ == Place::root ? Place::start : Place::root;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || field_ == "dtype") return refuse_value("a list");
    place_ = field_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(ErrorKind::bad_input, what_, ": the safetensors header is not valid JSON at its byte ", position);
  }

 private:
  enum class Place { start, root, metadata, tensor, shape, offsets };
  static constexpr size_t kRankMax = 16;

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    if (place_ == Place::start || place_ == Place::root) fail(ErrorKind::bad_input, what_, ": ", parts...);
    if (place_ == Place::metadata) fail(ErrorKind::bad_input, what_, ": __metadata__: ", parts...);
    fail(ErrorKind::bad_input, what_, ": tensor ", shown(tensors.back().name), ": ", parts...);
  }

  /// A value of the wrong type at the current place.
  bool refuse_value(std::string_view found) const {
    switch (place_) {
      case Place::start:
        refuse("the safetensors header is ", found, ", expected an object");
      case Place::root:
        refuse("the header's entry ", shown(key_), " is ", found, ", expected an object");
      case Place::metadata:
        refuse("the value of ", shown(key_), " is ", found, ", expected a string");
      case Place::tensor:
        refuse(field_, " is ", found, ", expected ", field_ == "dtype" ? "a string" : "a list");
      case Place::shape:
      case Place::offsets:
        refuse(field_, " holds ", found, ", expected whole numbers of at least 0");
    }
    return false;
  }

  void end_tensor() {
    if (!seen_dtype_) refuse("has no dtype");
    if (!seen_shape_) refuse("has no shape");
    if (!seen_offsets_) refuse("has no data_offsets");
    if (offsets_.size() != 2) refuse("data_offsets holds ", offsets_.size(), " numbers, expected 2");
    tensors.back().begin = offsets_[0];
    tensors.back().end = offsets_[1];
  }

  std::string_view what_;
  Place place_ = Place::start;
  std::string key_;
  std::string field_;
  std::vector<int64_t> offsets_;
  bool metadata_seen_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
};

/// The header's text, after the checks of its length.
std::string_view header_text(std::string_view head, int64_t file_bytes, std::string_view what) {
  if (file_bytes < 8) {
    fail(ErrorKind::bad_input, what, ": truncated: ", file_bytes,
         " bytes, a safetensors file has at least 8");
  }
  GLINT_CHECK(head.size() >= 8);
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = (length << 8) | static_cast<unsigned char>(head[i]);
  if (length > static_cast<uint64_t>(kSafetensorsHeaderBytesMax)) {
    fail(ErrorKind::bad_input, what, ": the safetensors header has ", length, " bytes, at most ",
         kSafetensorsHeaderBytesMax, " are allowed");
  }
  if (static_cast<int64_t>(length) > file_bytes - 8) {
    fail(ErrorKind::bad_input, what, ": truncated: the header needs ", length, " bytes, the file has ",
         file_bytes - 8, " after the first 8");
  }
  const std::string_view text = head.substr(8, length);
  GLINT_CHECK(text.size() == length);
  if (text.empty() || text.front() != '{') {
    fail(ErrorKind::bad_input, what, ": the safetensors header does not start with '{'");
  }
  return text;
}

void check_entry(const TensorEntry& entry, int64_t data_bytes, std::string_view what) {
  const std::string place = cat(what, ": tensor ", shown(entry.name), ": ");
  int64_t bytes = dtype_bytes(entry.dtype);
  for (const int64_t dimension : entry.shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) {
      fail(ErrorKind::bad_input, place, "shape ", shape_text(entry.shape), " overflows");
    }
  }
  if (entry.begin > entry.end) {
    fail(ErrorKind::bad_input, place, "data_offsets [", entry.begin, ", ", entry.end, "] run backwards");
  }
  if (entry.end > data_bytes) {
    fail(ErrorKind::bad_input, place, "data_offsets [", entry.begin, ", ", entry.end,
         "] are out of range: the file has ", data_bytes, " bytes of data (truncated?)");
  }
  if (entry.bytes() != bytes) {
    fail(ErrorKind::bad_input, place, "data_offsets [", entry.begin, ", ", entry.end, "] hold ",
         entry.bytes(), " bytes, ", dtype_name(entry.dtype), " ", shape_text(entry.shape), " needs ", bytes);
  }
}

/// `tensors` in the order of their offsets must fill the data area.
void check_layout(const std::vector<TensorEntry>& tensors, int64_t data_bytes, std::string_view what) {
  int64_t end = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.begin != end) {
      fail(ErrorKind::bad_input, what, ": tensor ", shown(entry.name), ": data_offsets [", entry.begin, ", ",
           entry.end,
           entry.begin < end ? "] overlap the tensor before, which ends at " : "] leave a hole after byte ",
           end);
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    fail(ErrorKind::bad_input, what, ": ", data_bytes - end, " bytes after the last tensor, which ends at ",
         end, "; expected none");
  }
}

}  // namespace

SafetensorsTable parse_safetensors(std::string_view head, int64_t file_bytes, std::string_view what) {
  const std::string_view text = header_text(head, file_bytes, what);
  HeaderReader reader(what);
  GLINT_CHECK(Json::sax_parse(text, &reader));

  SafetensorsTable table;
  table.data_begin_ = 8 + static_cast<int64_t>(text.size());
  table.metadata_ = std::move(reader.metadata);
  table.tensors_ = std::move(reader.tensors);
  const int64_t data_bytes = file_bytes - table.data_begin_;
  std::vector<TensorEntry>& tensors = table.tensors_;
  for (const TensorEntry& entry : tensors) check_entry(entry, data_bytes, what);
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });

  table.by_name_.resize(tensors.size());
  std::iota(table.by_name_.begin(), table.by_name_.end(), 0U);
  std::sort(table.by_name_.begin(), table.by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  for (size_t i = 1; i < tensors.size(); ++i) {
    const std::string& name = tensors[table.by_name_[i]].name;
    if (name == tensors[table.by_name_[i - 1]].name) {
      fail(ErrorKind::bad_input, what, ": tensor ", shown(name), " stands twice in the header");
    }
  }
  check_layout(tensors, data_bytes, what);
  return table;
}

const TensorEntry* SafetensorsTable::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  if (at == by_name_.end() || tensors_[*at].name != name) return nullptr;
  return &tensors_[*at];
}

}  // namespace glint
