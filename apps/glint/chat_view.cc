#include "chat_view.h"

#include <array>
#include <cstdio>

#include "base/error.h"
#include "chat_text.h"

namespace glint {

namespace {

constexpr const char* kDim = "\033[2m";
constexpr const char* kRed = "\033[31m";
constexpr const char* kPlain = "\033[0m";
constexpr std::chrono::milliseconds kRedraw{100};

std::string fixed(double value, int digits) {
  std::array<char, 64> text;
  const int bytes = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return {text.data(), static_cast<size_t>(bytes)};
}

}  // namespace

std::string usage_line(const ChatAnswer& answer) {
  std::string text;
  if (answer.prompt_tokens) {
    text +=
        cat(*answer.prompt_tokens,
            answer.cached_tokens.value_or(0) > 0 ? cat(" (", *answer.cached_tokens, " cached)") : "", " + ");
  }
  const int64_t made = answer.completion_tokens.value_or(answer.pieces);
  text += cat(made, answer.completion_tokens ? " tokens" : " pieces");
  if (answer.reasoning_tokens.value_or(0) > 0) text += cat(" (", *answer.reasoning_tokens, " of thought)");
  const double seconds = answer.last_s - answer.first_s;
  if (made > 1 && seconds > 0) {
    text += cat(", ", fixed(static_cast<double>(made - 1) / seconds, 1),
                answer.completion_tokens ? " tokens/s" : " pieces/s");
  }
  if (answer.pieces > 0) text += cat(", first after ", fixed(answer.first_s, 2), " s");
  if (answer.stopped) return text + ", stopped";
  if (answer.finish == "length") return text + ", cut at the limit of tokens";
  if (!answer.finish.empty() && answer.finish != "stop" && answer.finish != "tool_calls")
    text += cat(", ended by ", harmless_line(answer.finish));
  return text;
}

void ChatView::write(const std::string& text) {
  if (text.empty()) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  at_line_start_ = text.back() == '\n';
}

void ChatView::begin(ReasoningView view) {
  view_ = view;
  in_reasoning_ = dimmed_ = folded_ = content_began_ = false;
  at_line_start_ = true;
  began_ = drawn_ = std::chrono::steady_clock::now();
}

void ChatView::fold_line(const std::string& text) {
  std::fprintf(stdout, "\r\033[K%s%s%s", kDim, text.c_str(), kPlain);
  std::fflush(stdout);
  folded_ = true;
}

void ChatView::piece(ChatPiece kind, const std::string& text) {
  if (kind == ChatPiece::reasoning) {
    in_reasoning_ = true;
    if (view_ == ReasoningView::show) {
      if (styled_ && !dimmed_) std::fputs(kDim, stdout);
      dimmed_ = true;
      write(harmless_text(text));
    } else if (view_ == ReasoningView::fold && styled_) {
      const auto now = std::chrono::steady_clock::now();
      if (folded_ && now - drawn_ < kRedraw) return;
      drawn_ = now;
      fold_line(cat("thinking, ", fixed(std::chrono::duration<double>(now - began_).count(), 1), " s"));
    }
    return;
  }
  close_reasoning();
  std::string shown = harmless_text(text);
  if (!content_began_) shown.erase(0, shown.find_first_not_of('\n'));
  content_began_ = content_began_ || !shown.empty();
  write(shown);
}

void ChatView::close_reasoning() {
  if (!in_reasoning_) return;
  in_reasoning_ = false;
  if (folded_) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    fold_line(cat("thought for ", fixed(seconds, 1), " s"));
    write("\n");
    folded_ = false;
  }
  if (dimmed_ && styled_) std::fputs(kPlain, stdout);
  if (dimmed_) write(at_line_start_ ? "" : "\n");
  dimmed_ = false;
}

void ChatView::show_calls(const OrderedJson& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  if (!at_line_start_) write("\n");
  for (const OrderedJson& call : *calls) {
    const OrderedJson& function = call.at("function");
    write(cat(harmless_line(function.at("name").get<std::string>()), "(",
              harmless_line(function.at("arguments").get<std::string>()), ")\n"));
  }
}

void ChatView::end(const ChatAnswer& answer, bool usage) {
  close_reasoning();
  show_calls(answer.message);
  if (!at_line_start_) write("\n");
  if (!usage) return;
  if (styled_) {
    std::printf("%s[%s]%s\n", kDim, usage_line(answer).c_str(), kPlain);
  } else {
    std::fprintf(stderr, "[%s]\n", usage_line(answer).c_str());
  }
}

void ChatView::abandon() {
  close_reasoning();
  if (!at_line_start_) write("\n");
}

void ChatView::note(const std::string& text) const {
  if (text.empty()) return;
  if (styled_) {
    std::printf("%s%s%s\n", kDim, text.c_str(), kPlain);
    std::fflush(stdout);
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void ChatView::error(const std::string& text) const {
  if (styled_) {
    std::printf("%s%s%s\n", kRed, text.c_str(), kPlain);
    std::fflush(stdout);
  } else {
    std::fprintf(stderr, "glint: %s\n", text.c_str());
  }
}

}  // namespace glint
