// Character classes as the Rust `tokenizers` library sees them; the tables come from it
// (tools/make_unicode_classes.py).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace glint {

/// Unicode general categories, two-letter names as in \p{Lu}.
enum class GeneralCategory : uint8_t {
  // clang-format off
  Cn, Cc, Cf, Co, Cs, Ll, Lm, Lo, Lt, Lu, Mc, Me, Mn, Nd, Nl, No, Pc, Pd, Pe, Pf, Pi, Po, Ps, Sc, Sk, Sm, So, Zl, Zp, Zs
  // clang-format on
};
inline constexpr int kGeneralCategories = 30;

/// The name, "Lu".
std::string_view category_name(GeneralCategory category);

/// The four classes that the pre-tokenizer's pattern tells apart: \p{L}, \p{N}, \s and the rest. They do not
/// overlap.
enum class CharClass : uint8_t { other, letter, number, white_space };

/// Lookups for one code point; values above U+10FFFF and surrogates have category Cs or Cn and class other.
class UnicodeClasses {
 public:
  /// The tables, built at the first call (thread-safe).
  static const UnicodeClasses& get();

  [[nodiscard]] GeneralCategory category(char32_t code) const {
    return static_cast<GeneralCategory>(info(code) & kCategoryMask);
  }
  [[nodiscard]] CharClass char_class(char32_t code) const { return class_of_info_[info(code)]; }
  /// Unicode White_Space: 25 characters.
  [[nodiscard]] bool is_white_space(char32_t code) const { return (info(code) & kWhiteSpaceBit) != 0; }
  /// \w of the Rust regex crate: alphabetic characters, marks, decimal digits, connectors and joiners.
  [[nodiscard]] bool is_word(char32_t code) const { return (info(code) & kWordBit) != 0; }

  UnicodeClasses(const UnicodeClasses&) = delete;
  UnicodeClasses& operator=(const UnicodeClasses&) = delete;
  ~UnicodeClasses() = default;

 private:
  static constexpr uint8_t kCategoryMask = 31;
  static constexpr uint8_t kWhiteSpaceBit = 32;
  static constexpr uint8_t kWordBit = 64;
  static constexpr int kPages = 0x1100;
  static constexpr int kPagesMax = 256;  // distinct ones; about 200 are needed

  UnicodeClasses();
  [[nodiscard]] uint8_t info(char32_t code) const {
    return code < 0x110000 ? pages_[page_of_[code >> 8]][code & 0xFFU] : uint8_t{0};
  }

  uint8_t page_of_[kPages] = {};
  uint8_t pages_[kPagesMax][256] = {};
  CharClass class_of_info_[128] = {};
};

/// Code points first..last.
struct CodePointRange {
  char32_t first, last;
};
using CodePointSet = std::vector<CodePointRange>;

/// The members of "Lu" (a general category), "L" (all that begin so) or "White_Space", ascending, surrogates
/// left out. Empty for any other name.
CodePointSet unicode_members(std::string_view property);

/// The Unicode version that the tables follow, "16.0".
std::string_view unicode_classes_version();

}  // namespace glint
