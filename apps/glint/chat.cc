// glint chat: a conversation in the terminal, with a server or with a model that it serves itself.

#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "chat_client.h"
#include "chat_input.h"
#include "chat_server.h"
#include "chat_session.h"
#include "chat_text.h"
#include "chat_view.h"
#include "checkpoint/bundled_model.h"
#include "checkpoint/config.h"
#include "commands.h"

namespace glint {

namespace {

struct Flags {
  std::string target = "nano";
  std::vector<std::string> server_flags;
  std::string model;
  std::string key;
  std::string system, effort, temperature, max_tokens, tools, load;
  std::string reasoning;
  bool quiet = false;
};

/// A server at hand: its client, the name of its model, and its process if it is ours.
struct Partner {
  std::unique_ptr<ChatServer> server;
  std::unique_ptr<ChatClient> client;
  std::string model;
};

bool gives(const std::vector<std::string>& flags, std::string_view beginning) {
  return std::any_of(flags.begin(), flags.end(),
                     [&](const std::string& flag) { return flag.rfind(beginning, 0) == 0; });
}

/// The model, what a chat wants of its server unless the user says otherwise, and the user's flags.
std::vector<std::string> serve_arguments(const Flags& flags) {
  std::string folder = flags.target;
  if (std::filesystem::is_directory(folder) || find_bundled_model(folder))
    folder = folder_or_bundled_model(folder);
  std::vector<std::string> arguments{folder};
  if (!gives(flags.server_flags, "--served-model-name")) {
    arguments.insert(arguments.end(), {"--served-model-name", flags.target});
  }
  if (!gives(flags.server_flags, "--tool-call-parser")) {
    arguments.insert(arguments.end(), {"--enable-auto-tool-choice", "--tool-call-parser", "glm47"});
  }
  const bool known = std::filesystem::exists(std::filesystem::path(folder) / "config.json");
  if (known && !gives(flags.server_flags, "--spec") && load_model_config(folder).has_mtp()) {
    arguments.insert(arguments.end(), {"--speculative-config.method", "mtp",
                                       "--speculative-config.num_speculative_tokens", "5"});
  }
  arguments.insert(arguments.end(), flags.server_flags.begin(), flags.server_flags.end());
  return arguments;
}

Partner find_partner(const Flags& flags, const Interrupts& interrupts, bool styled) {
  Partner partner;
  std::string url = flags.target;
  std::string key = flags.key;
  if (flags.target.find("://") == std::string::npos) {
    partner.server = std::make_unique<ChatServer>(serve_arguments(flags));
    key = partner.server->key();
    url = partner.server->wait_ready(interrupts.fd(), [&](const std::string& line) {
      if (styled)
        std::cout << "\r\033[K\033[2m" << harmless_line(line).substr(0, 100) << "\033[0m" << std::flush;
    });
    if (styled) std::cout << "\r\033[K" << std::flush;
  } else {
    if (!flags.server_flags.empty())
      fail(ErrorKind::bad_input, "flags of a server have no effect with a URL: ", flags.server_flags.front());
    if (const char* variable = std::getenv("OPENAI_API_KEY"); key.empty() && variable != nullptr)
      key = variable;
  }
  partner.client = std::make_unique<ChatClient>(parse_http_url(url), key);
  const auto models = partner.client->models();
  partner.model = flags.model;
  if (partner.model.empty()) {
    if (models.empty()) fail(ErrorKind::bad_input, url, ": serves no model; --model names one");
    partner.model = models.front();
  }
  return partner;
}

ChatSession make_session(const Flags& flags, const std::string& model, bool styled) {
  ChatSession session(model, styled ? ReasoningView::show : ReasoningView::hide);
  session.set_usage(styled && !flags.quiet);
  if (!flags.load.empty()) session.load(flags.load);
  if (!flags.system.empty()) session.set_system(flags.system);
  if (!flags.effort.empty()) session.set_effort(flags.effort);
  if (!flags.temperature.empty()) session.set_temperature(flags.temperature);
  if (!flags.max_tokens.empty()) session.set_max_tokens(flags.max_tokens);
  if (!flags.tools.empty()) session.set_tools(flags.tools);
  if (!flags.reasoning.empty()) session.set_view(flags.reasoning);
  return session;
}

class Conversation {
 public:
  Conversation(Partner& partner, ChatSession& session, bool styled, const Interrupts& interrupts)
      : partner_(partner),
        session_(session),
        view_(styled),
        styled_(styled),
        interrupts_(interrupts),
        input_(styled) {}

  /// True if everything was answered.
  bool run() {
    bool good = true;
    std::string message;
    while (input_.next(message, view_)) {
      const ChatStep step = session_.take(message);
      if (step.refused) {
        view_.error(step.reply);
        good = false;
      } else {
        view_.note(step.reply);
      }
      if (step.action == ChatAction::leave) break;
      if (step.action == ChatAction::answer) good = answer() && good;
    }
    return good;
  }

 private:
  bool answer() {
    std::unique_ptr<RawTerminal> quiet_keys;
    if (styled_) quiet_keys = std::make_unique<RawTerminal>(true);
    interrupts_.forget();
    view_.begin(session_.view());
    try {
      const ChatAnswer got = partner_.client->complete(
          session_.request(), interrupts_.fd(),
          [&](ChatPiece kind, const std::string& text) { view_.piece(kind, text); });
      view_.end(got, session_.shows_usage());
      if (got.stopped) {
        input_.was_interrupted();
      }
      if (got.stopped && got.pieces == 0) {
        session_.drop_last_message();
      } else {
        session_.add_answer(got);
      }
      return true;
    } catch (const Error& error) {
      view_.abandon();
      view_.error(harmless_line(error.what()));
      session_.drop_last_message();
      return false;
    }
  }

  Partner& partner_;
  ChatSession& session_;
  ChatView view_;
  bool styled_;
  const Interrupts& interrupts_;
  ChatInput input_;
};

void run(const Flags& flags) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // the width of characters
  const bool styled = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  ChatSession checked = make_session(flags, "", styled);  // wrong flags show before a model is loaded
  const Interrupts interrupts;
  Partner partner = find_partner(flags, interrupts, styled);
  ChatSession session = make_session(flags, partner.model, styled);
  Conversation conversation(partner, session, styled, interrupts);
  if (styled) {
    std::cout << "\033[2m" << harmless_line(partner.model)
              << "; /help lists the commands, Ctrl-D leaves\033[0m" << std::endl;
  }
  if (!conversation.run() && !styled) throw CLI::RuntimeError(1);
}

}  // namespace

void add_chat(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "chat",
      "Chat in the terminal with a model, which is served for that, or with a server of the OpenAI API");
  const auto flags = std::make_shared<Flags>();
  command
      ->add_option("TARGET", flags->target,
                   "A model (nano, or a checkpoint's folder), or a server's URL: http://HOST:PORT")
      ->capture_default_str();
  command->add_option("SERVE_FLAGS", flags->server_flags,
                      "Behind \"--\": flags of `glint serve` for the model");
  command->add_option("--model", flags->model,
                      "The model's name at the server; without it the first that it lists");
  command->add_option("--api-key", flags->key, "Of the server (else OPENAI_API_KEY)");
  command->add_option("--system", flags->system, "The system message");
  command->add_option("--effort", flags->effort, "How long the model thinks: low, high or max");
  command->add_option("--temperature", flags->temperature, "0 to 2");
  command->add_option("--max-tokens", flags->max_tokens, "Tokens of an answer, at most");
  command->add_option("--tools", flags->tools, "A JSON file with a list of tools, as in the API's \"tools\"");
  command->add_option("--load", flags->load, "Go on with a conversation that /save has written");
  command->add_option("--reasoning", flags->reasoning,
                      "show, fold or hide; without it show on a terminal, else hide");
  command->add_flag("--quiet", flags->quiet, "No line of figures below an answer");
  command->callback([flags] { run(*flags); });
}

}  // namespace glint
