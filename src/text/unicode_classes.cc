#include "text/unicode_classes.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/error.h"

namespace glint {

namespace {

// clang-format off
#include "text/unicode_classes_table.inc"
// clang-format on

constexpr std::string_view kNames = "CnCcCfCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs";

constexpr size_t kCodes = 0x110000;

bool is_word_category(GeneralCategory category) {
  const char major = category_name(category)[0];
  return major == 'L' || major == 'M' || category == GeneralCategory::Nd || category == GeneralCategory::Nl ||
         category == GeneralCategory::Pc;
}

}  // namespace

std::string_view category_name(GeneralCategory category) {
  return kNames.substr(2 * static_cast<size_t>(category), 2);
}

CodePointSet unicode_members(std::string_view property) {
  if (property == "White_Space") return {std::begin(kWhiteSpace), std::end(kWhiteSpace)};
  if (property.empty() || property.size() > 2) return {};
  CodePointSet out;
  const size_t runs = std::size(kCategoryRuns);
  for (size_t run = 0; run < runs; ++run) {
    const auto category = static_cast<GeneralCategory>(kCategoryRuns[run] & 31U);
    if (category == GeneralCategory::Cs || !category_name(category).starts_with(property)) continue;
    const char32_t first = kCategoryRuns[run] >> 5;
    const char32_t last = (run + 1 < runs ? kCategoryRuns[run + 1] >> 5 : kCodes) - 1;
    if (!out.empty() && out.back().last + 1 == first) {
      out.back().last = last;
    } else {
      out.push_back({first, last});
    }
  }
  return out;
}

std::string_view unicode_classes_version() {
  return kUnicodeVersion;
}

const UnicodeClasses& UnicodeClasses::get() {
  static const UnicodeClasses classes;
  return classes;
}

UnicodeClasses::UnicodeClasses() {
  std::vector<uint8_t> flat(kCodes);
  const size_t runs = std::size(kCategoryRuns);
  for (size_t run = 0; run < runs; ++run) {
    const auto category = static_cast<GeneralCategory>(kCategoryRuns[run] & kCategoryMask);
    const auto value =
        static_cast<uint8_t>(static_cast<uint8_t>(category) | (is_word_category(category) ? kWordBit : 0));
    const size_t end = run + 1 < runs ? kCategoryRuns[run + 1] >> 5 : kCodes;
    std::fill(flat.begin() + (kCategoryRuns[run] >> 5), flat.begin() + static_cast<ptrdiff_t>(end), value);
  }
  const auto set_bit = [&flat](CodePointRange range, uint8_t bit) {
    for (size_t code = range.first; code <= range.last; ++code)
      flat[code] = static_cast<uint8_t>(flat[code] | bit);
  };
  for (const CodePointRange& range : kWhiteSpace) set_bit(range, kWhiteSpaceBit);
  for (const CodePointRange& range : kOtherWord) set_bit(range, kWordBit);

  size_t used = 0;
  for (size_t page = 0; page < kPages; ++page) {
    const uint8_t* source = flat.data() + page * 256;
    size_t same = 0;
    while (same < used && std::memcmp(pages_[same], source, 256) != 0) ++same;
    if (same == used) {
      GLINT_CHECK(used < kPagesMax);
      std::memcpy(pages_[used++], source, 256);
    }
    page_of_[page] = static_cast<uint8_t>(same);
  }
  for (size_t value = 0; value < std::size(class_of_info_); ++value) {
    if ((value & kCategoryMask) >= kGeneralCategories) continue;
    const char major = category_name(static_cast<GeneralCategory>(value & kCategoryMask))[0];
    class_of_info_[value] = (value & kWhiteSpaceBit) != 0 ? CharClass::white_space
                            : major == 'L'                ? CharClass::letter
                            : major == 'N'                ? CharClass::number
                                                          : CharClass::other;
  }
}

}  // namespace glint
