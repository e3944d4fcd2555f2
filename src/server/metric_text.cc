#include "server/metric_text.h"

#include <array>
#include <charconv>

namespace glint {

namespace {

void append_label(std::string& out, const MetricText::Label& label) {
  if (!out.empty()) out += ',';
  out += label.first;
  out += "=\"";
  for (const char c : label.second) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  out += '"';
}

template <class Number>
std::string number(Number value) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

}  // namespace

MetricText::MetricText(Labels common) {
  for (const Label& label : common) append_label(common_, label);
}

void MetricText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  out_ += "# HELP ";
  out_ += name;
  out_ += ' ';
  out_ += help;
  out_ += "\n# TYPE ";
  out_ += name;
  out_ += ' ';
  out_ += type;
  out_ += '\n';
}

void MetricText::line(std::string_view suffix, Labels labels, std::string_view value) {
  std::string all = common_;
  for (const Label& label : labels) append_label(all, label);
  out_ += name_;
  out_ += suffix;
  out_ += '{';
  out_ += all;
  out_ += "} ";
  out_ += value;
  out_ += '\n';
}

void MetricText::sample(Labels labels, double value) {
  line("", labels, number(value));
}

void MetricText::sample(Labels labels, uint64_t value) {
  line("", labels, number(value));
}

void MetricText::histogram(std::span<const double> bounds, std::span<const uint64_t> counts, double sum,
                           double largest) {
  uint64_t total = 0;
  for (size_t i = 0; i < bounds.size(); ++i) {
    total += counts[i];
    if (bounds[i] <= largest) line("_bucket", {{"le", metric_bound(bounds[i])}}, number(total));
  }
  total += counts[bounds.size()];
  line("_bucket", {{"le", "+Inf"}}, number(total));
  line("_sum", {}, number(sum));
  line("_count", {}, number(total));
}

void MetricText::summary(Labels labels, double sum, uint64_t count) {
  line("_sum", labels, number(sum));
  line("_count", labels, number(count));
}

std::string metric_bound(double bound) {
  std::array<char, 40> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), bound, std::chars_format::fixed).ptr;
  std::string text(digits.data(), end);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace glint
