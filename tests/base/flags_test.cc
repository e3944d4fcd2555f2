// The rules of a command line: vLLM's as its users know them, and one line for every fault.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/flags/flag_parse.h"
#include "base/flags/help.h"
#include "support/temp_folder.h"

namespace glint {
namespace {

/// A table with one flag of every kind.
struct Settings {
  std::string model, config, host = "0.0.0.0";
  int port = 8000;
  std::optional<int64_t> length;
  int64_t seqs = 16, queued_seqs = 0;
  double share = 0.5;
  bool caching = true, strict = false;
  std::vector<std::string> names, keys;
  std::string backend = "auto";
  OrderedJson spec = OrderedJson::object();
  OrderedJson free = OrderedJson::object();
};

FlagTable table_of(Settings& to, const std::string& form = "serve") {
  FlagTable table("glint", form, "About.", "model");
  table.group("One", {"OneConfig"});
  table.add(value_flag("model", to.model, Text{}).metavar("MODEL").alias("model-path"));
  table.add(value_flag("config", to.config, Text{}));
  table.add(value_flag("host", to.host, Text{}).form_default("other", "127.0.0.1").help("Where to listen"));
  table.add(value_flag("port", to.port, WholeNumber{0, 65535}));
  table.add(value_flag("max-model-len", to.length, HumanNumberOrAuto{}).alias("context-length"));
  table.add(value_flag("max-num-seqs", to.seqs, HumanNumber{}).short_name("n"));
  table.add(value_flag("max-queued-seqs", to.queued_seqs, HumanNumber{0}));
  const auto above_0 = [](double value) { return value > 0; };
  table.add(value_flag("share", to.share, Number{above_0, "above 0"}));
  table.group("Two");
  table.add(toggle_flag("enable-caching", to.caching).off_name("disable-radix-cache"));
  table.add(toggle_flag("strict", to.strict).env("GLINT_TEST_STRICT"));
  table.add(list_flag("served-model-name", to.names));
  table.add(list_flag("api-key", to.keys).secret().env("GLINT_TEST_KEY"));
  table.add(value_flag("backend", to.backend,
                       Choice{{"auto", "flashinfer_cutlass"}, {{"aiter", "needs an AMD GPU"}}, true})
                .short_name("tb")
                .env("GLINT_TEST_BACKEND")
                .env("GLINT_TEST_BACKEND_TOO"));
  table.add(
      object_flag("speculative-config", to.spec).key("method", "m").key("number", "n").key("more", "o"));
  table.add(object_flag("kwargs", to.free));
  table.add(no_effect_flag("trust-code", FlagKind::toggle, "nothing runs"));
  table.add(no_effect_flag("old-backend", FlagKind::value, "ours is used", {"a", "b"}));
  table.add(refused_flag("middleware", FlagKind::value, "this program runs no Python"));
  return table;
}

struct Parsed {
  Settings settings;
  FlagReport report;
  std::string error;  // empty: none
};

Parsed parse(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables = {},
             const std::string& form = "serve") {
  Parsed parsed;
  const FlagTable table = table_of(parsed.settings, form);
  try {
    parsed.report = parse_flags(table, words, [&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  } catch (const Error& error) {
    parsed.error = error.what();
    EXPECT_EQ(parsed.error.find('\n'), std::string::npos);
  }
  return parsed;
}

Settings good(const std::vector<std::string>& words,
              const std::map<std::string, std::string>& variables = {}) {
  const Parsed parsed = parse(words, variables);
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.report.warnings, std::vector<std::string>{});
  return parsed.settings;
}

/// The error must be exactly this.
void bad(const std::vector<std::string>& words, const std::string& error) {
  EXPECT_EQ(parse(words).error, error);
}

TEST(Flags, FormsOfOneValue) {
  EXPECT_EQ(good({"--port", "1"}).port, 1);
  EXPECT_EQ(good({"--port=1"}).port, 1);
  EXPECT_EQ(good({"--max_num_seqs", "8k"}).seqs, 8000);
  EXPECT_EQ(good({"--max_num-seqs=8K"}).seqs, 8192);
  EXPECT_EQ(good({"--max-model-len", "-1"}).length, std::nullopt);
  EXPECT_EQ(good({"--context-length", "1M"}).length, 1048576);
  EXPECT_EQ(good({"-n", "3"}).seqs, 3);
  EXPECT_EQ(good({"-n=3"}).seqs, 3);
  EXPECT_EQ(good({"-n3"}).seqs, 3);
  EXPECT_EQ(good({"-tb", "auto"}).backend, "auto");
  EXPECT_EQ(good({"--backend", "FlashInfer-Cutlass"}).backend, "flashinfer_cutlass");
  EXPECT_EQ(good({"--share", "1e-3"}).share, 1e-3);
  EXPECT_EQ(good({"/m", "--port", "1"}).model, "/m");
  EXPECT_EQ(good({"--port", "1", "/m"}).model, "/m");
  EXPECT_EQ(good({"--model", "/m"}).model, "/m");
  EXPECT_EQ(good({"--", "--m"}).model, "--m");
  EXPECT_EQ(good({"--host", "-"}).host, "-");
}

TEST(Flags, TogglesAndLists) {
  EXPECT_FALSE(good({"--no-enable-caching"}).caching);
  EXPECT_FALSE(good({"--disable-radix-cache"}).caching);
  EXPECT_TRUE(good({"--no-disable-radix-cache"}).caching);
  EXPECT_TRUE(good({"--strict"}).strict);
  EXPECT_EQ(good({"--served-model-name", "a", "b", "--port", "1"}).names,
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(good({"--served-model-name=a", "/m"}).model, "/m");
}

TEST(Flags, Prefixes) {
  EXPECT_EQ(good({"--por", "1"}).port, 1);
  EXPECT_EQ(good({"--max-n", "1"}).seqs, 1);
  EXPECT_EQ(good({"--max_m=1"}).length, 1);
  EXPECT_FALSE(good({"--no-enable"}).caching);
  EXPECT_EQ(good({"--spec.method", "mtp"}).spec.dump(), R"({"method":"mtp"})");
  bad({"--max", "1"},
      "ambiguous option: --max could match --max-model-len, --max-num-seqs, --max-queued-seqs");
  // Both names of one flag are no ambiguity.
  EXPECT_EQ(good({"--mode", "/m"}).model, "/m");
}

TEST(Flags, UnknownOnesNameTheNearest) {
  bad({"--prot", "1"}, "unrecognized arguments: --prot (did you mean --port?)");
  bad({"--num-seqs", "1"}, "unrecognized arguments: --num-seqs (did you mean --max-num-seqs?)");
  bad({"--zzzzzz"}, "unrecognized arguments: --zzzzzz");
  bad({"-z"}, "unrecognized arguments: -z");
  bad({"/m", "/other"}, "unrecognized arguments: /other");
  EXPECT_LT(parse({"--" + std::string(100'000, 'x')}).error.size(), 100'100U);
}

TEST(Flags, IllegalValues) {
  bad({"--port"}, "argument --port: expected one argument");
  bad({"--port", "--strict"}, "argument --port: expected one argument");
  bad({"--port", ""}, "argument --port: expected a value, got an empty text");
  bad({"--port="}, "argument --port: expected a value, got an empty text");
  bad({"--port", "x"}, "argument --port: invalid int value: 'x'");
  bad({"--port", "1.0"}, "argument --port: invalid int value: '1.0'");
  bad({"--port", "65536"}, "argument --port: expected a whole number from 0 to 65535, got 65536");
  bad({"--port", "99999999999999999999"},
      "argument --port: expected a whole number from 0 to 65535, got 99999999999999999999");
  bad({"--share", "nan"}, "argument --share: expected a number above 0, got nan");
  bad({"--share", "x"}, "argument --share: invalid float value: 'x'");
  bad({"--backend", "x"}, "argument --backend: invalid choice: 'x' (choose from auto, flashinfer_cutlass)");
  bad({"--backend", "aiter"}, "argument --backend: aiter: needs an AMD GPU");
  bad({"--strict=1"}, "argument --strict: takes no value (--strict or --no-strict)");
  bad({"--served-model-name"}, "argument --served-model-name: expected at least one argument");
  bad({"--served-model-name", ""}, "argument --served-model-name: expected a value, got an empty text");
  bad({"--middleware", "x.y"}, "argument --middleware: this program runs no Python");
  bad({"--old-backend", "c"}, "argument --old-backend: invalid choice: 'c' (choose from a, b)");
  bad({"--port.x", "1"}, "argument --port: takes no keys (--port.x)");
  // The name as it was said.
  bad({"--context-length", "1.5K"},
      "argument --context-length: invalid human_readable_int_or_auto value: '1.5K' (Decimals are not allowed "
      "with binary suffixes or without one; k, m, g and t are the decimal suffixes)");
}

TEST(Flags, TwiceTheSame) {
  EXPECT_EQ(good({"--port", "1", "--port", "1"}).port, 1);
  EXPECT_EQ(good({"--max-model-len", "64K", "--context-length", "65536"}).length, 65536);
  EXPECT_EQ(good({"/m", "--model", "/m"}).model, "/m");
  const Parsed later = parse({"--port", "1", "--port", "2", "--port", "2"});
  EXPECT_EQ(later.settings.port, 2);
  EXPECT_EQ(later.report.warnings,
            std::vector<std::string>{"argument --port: given more than once; the last one 2 counts"});
  const Parsed off = parse({"--enable-caching", "--no-enable-caching"});
  EXPECT_FALSE(off.settings.caching);
  EXPECT_EQ(off.report.warnings.size(), 1U);
  bad({"--max-model-len", "1", "--context-length", "2"},
      "argument --max-model-len 1 and argument --context-length 2 name the same setting and differ: give one "
      "of them");
  bad({"--enable-caching", "--disable-radix-cache"},
      "argument --enable-caching (on) and argument --disable-radix-cache (off) name the same setting and "
      "differ: "
      "give one of them");
  EXPECT_NE(parse({"/a", "--model-path", "/b"}).error.find("differ"), std::string::npos);
}

TEST(Flags, SecretsAreNeverShown) {
  const Parsed twice = parse({"--api-key", "hush", "--api-key", "psst"});
  ASSERT_EQ(twice.report.warnings.size(), 1U);
  EXPECT_EQ(twice.report.warnings[0].find("psst"), std::string::npos) << twice.report.warnings[0];
  EXPECT_EQ(twice.settings.keys, std::vector<std::string>{"psst"});
}

TEST(Flags, NoEffect) {
  const Parsed parsed = parse({"--trust-code", "--old-backend", "a"});
  EXPECT_EQ(parsed.report.warnings,
            (std::vector<std::string>{"--trust-code has no effect in this engine (nothing runs)",
                                      "--old-backend has no effect in this engine (ours is used)"}));
}

TEST(Flags, ObjectsMerge) {
  const auto spec = [](const std::vector<std::string>& words) { return good(words).spec.dump(); };
  const char* const wanted = R"({"method":"mtp","number":5})";
  EXPECT_EQ(spec({"--speculative-config", R"({"method": "mtp", "number": 5})"}), wanted);
  EXPECT_EQ(spec({"--speculative-config.method", "mtp", "--speculative-config.number", "5"}), wanted);
  EXPECT_EQ(spec({"--speculative_config.method=mtp", "--speculative-config", R"({"number": 5})"}), wanted);
  const auto free = [](const std::vector<std::string>& words) { return good(words).free.dump(); };
  EXPECT_EQ(free({"--kwargs.a.b_c", "1", "--kwargs.a.d", "x y"}), R"({"a":{"b_c":1,"d":"x y"}})");
  EXPECT_EQ(free({"--kwargs", R"({"a": {"b": 1}})", "--kwargs", R"({"a": {"c": [2]}})"}),
            R"({"a":{"b":1,"c":[2]}})");
  EXPECT_EQ(free({"--kwargs.list+", "1,x", "--kwargs.list+=true"}), R"({"list":[1,"x",true]})");
  EXPECT_EQ(free({"--kwargs.n", "-1"}), R"({"n":-1})");
  EXPECT_EQ(free({"--kwargs.t", "true", "--kwargs.f", "2.5", "--kwargs.z", "null"}),
            R"({"t":true,"f":2.5,"z":null})");
  const Parsed twice = parse({"--kwargs.a", "1", "--kwargs", R"({"a": 2})"});
  EXPECT_EQ(twice.settings.free.dump(), R"({"a":2})");
  EXPECT_EQ(twice.report.warnings,
            std::vector<std::string>{"argument --kwargs.a: given more than once; the last one 2 counts"});
}

TEST(Flags, BrokenObjects) {
  bad({"--speculative-config", "[1]"},
      R"(argument --speculative-config: expected a JSON object, {"name": value, ...})");
  EXPECT_EQ(
      parse({"--speculative-config", "{"}).error.rfind("argument --speculative-config: expected a JSON", 0),
      0U);
  bad({"--speculative-config.methd", "mtp"},
      "argument --speculative-config.methd: unknown key methd (did you mean method?); known are method, "
      "number, "
      "more");
  bad({"--speculative-config", R"({"x": 1})"},
      "argument --speculative-config: unknown key x; known are method, number, more");
  bad({"--kwargs.a", "1", "--kwargs.a.b", "2"},
      "argument --kwargs.a.b: b would be a key of 1, which is no object");
  bad({"--kwargs.a", "1", "--kwargs.a+", "2"}, "argument --kwargs.a+: 1 is no list to add to");
  bad({"--kwargs..a", "1"}, "argument --kwargs..a: an empty key");
  std::string deep = "--kwargs";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  EXPECT_NE(parse({deep, "1"}).error.find("more than 16 keys deep"), std::string::npos);
}

TEST(Flags, Environment) {
  EXPECT_TRUE(good({}, {{"GLINT_TEST_STRICT", "1"}}).strict);
  EXPECT_FALSE(good({"--no-strict"}, {{"GLINT_TEST_STRICT", "1"}}).strict);
  EXPECT_FALSE(good({}, {{"GLINT_TEST_STRICT", ""}}).strict);
  EXPECT_EQ(good({}, {{"GLINT_TEST_KEY", "k"}}).keys, std::vector<std::string>{"k"});
  EXPECT_EQ(good({}, {{"GLINT_TEST_BACKEND", "auto"}, {"GLINT_TEST_BACKEND_TOO", "auto"}}).backend, "auto");
  EXPECT_EQ(parse({}, {{"GLINT_TEST_STRICT", "x"}}).error,
            "environment variable GLINT_TEST_STRICT: expected true or false, got 'x'");
  EXPECT_EQ(
      parse({}, {{"GLINT_TEST_BACKEND", "auto"}, {"GLINT_TEST_BACKEND_TOO", "flashinfer_cutlass"}}).error,
      "environment variable GLINT_TEST_BACKEND auto and environment variable GLINT_TEST_BACKEND_TOO "
      "flashinfer_cutlass name the same setting and differ: give one of them");
  const Parsed parsed = parse({"--max-n", "1"}, {{"GLINT_TEST_STRICT", "1"}});
  EXPECT_EQ(parsed.report.given.at("strict"), "environment variable GLINT_TEST_STRICT");
  EXPECT_EQ(parsed.report.given.at("max-num-seqs"), "argument --max-num-seqs");
  EXPECT_FALSE(parsed.report.has("port"));
}

TEST(Flags, DefaultsOfForms) {
  EXPECT_EQ(parse({}, {}, "other").settings.host, "127.0.0.1");
  EXPECT_EQ(parse({"--host", "::"}, {}, "other").settings.host, "::");
  EXPECT_EQ(parse({}).settings.host, "0.0.0.0");
}

class ConfigFileTest : public testing::Test {
 protected:
  std::vector<std::string> words(const std::string& text, std::vector<std::string> more = {}) {
    std::ofstream(path_, std::ios::trunc) << text;
    more.insert(more.begin(), {"--config", path_.string()});
    return more;
  }
  std::string error(const std::string& text) {
    std::string seen = parse(words(text)).error;
    if (seen.starts_with(path_.string())) seen.erase(0, path_.string().size());
    return seen;
  }

  // Of this process alone: ctest runs every test in one of its own, several at once.
  const TempFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "serve.yaml";
};

TEST_F(ConfigFileTest, EveryKind) {
  const Settings seen = good(words(R"(# A server.
model: /m
max_num_seqs: 8K
enable-caching: false
served-model-name: [a, "b"]
share: 0.25
speculative-config: {method: mtp, number: 5, more: {deep: [1, "2", true, null]}}
kwargs.a: 1
)"));
  EXPECT_EQ(seen.model, "/m");
  EXPECT_EQ(seen.seqs, 8192);
  EXPECT_FALSE(seen.caching);
  EXPECT_EQ(seen.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(seen.share, 0.25);
  EXPECT_EQ(seen.spec.dump(), R"({"method":"mtp","number":5,"more":{"deep":[1,"2",true,null]}})");
  EXPECT_EQ(seen.free.dump(), R"({"a":1})");
  EXPECT_EQ(good(words("")).port, 8000);
  EXPECT_TRUE(good(words("no-enable-caching: no")).caching);
}

TEST_F(ConfigFileTest, TheCommandLineWins) {
  EXPECT_EQ(good(words("port: 1\n", {"--port", "2"})).port, 2);
  EXPECT_EQ(good(words("max-model-len: 1\n", {"--context-length", "2"})).length, 2);
  EXPECT_EQ(
      good(words("speculative-config: {method: mtp}", {"--speculative-config.number", "5"})).spec.dump(),
      R"({"method":"mtp","number":5})");
  const auto file = words("strict: true\n");
  EXPECT_TRUE(good(file, {{"GLINT_TEST_STRICT", "0"}}).strict);
}

TEST_F(ConfigFileTest, FaultsNameFileAndLine) {
  EXPECT_EQ(error("model: /m\nprot: 1\n"), ":2: unknown key prot (did you mean port?)");
  EXPECT_EQ(error("\n\nport: x\n"), ":3: port: invalid int value: 'x'");
  EXPECT_EQ(error("port: 1\nport: 2\n"), ":2: port: --port stands in line 1 too");
  EXPECT_EQ(error("max-model-len: 1\ncontext-length: 2\n"),
            ":2: context-length: --max-model-len stands in line 1 too");
  EXPECT_EQ(error("- port\n"), ":1: expected one `flag: value` a line");
  EXPECT_EQ(error("port:\n"), ":1: port: expected a value");
  EXPECT_EQ(error("strict: maybe\n"), ":1: strict: expected true or false, got 'maybe'");
  EXPECT_EQ(error("strict: [1]\n"), ":1: strict: expected true or false");
  EXPECT_EQ(error("port: {a: 1\n").substr(0, 4), ":2: ");
  EXPECT_EQ(error("port: 1\nserved-model-name: {a: b}\n"),
            ":2: served-model-name: expected a list of texts, found keys and values");
  EXPECT_EQ(error("model: [a, b]\n"), ":1: model: expected one value, found a list");
  EXPECT_EQ(error("model: {a: b}\n"), ":1: model: expected one value, found keys and values");
  EXPECT_EQ(error("speculative-config: x\n")
                .find(":1: speculative-config: expected a JSON object, "
                      "{\"name\": value, ...}: not valid JSON"),
            0U);
  EXPECT_EQ(error("middleware: x\n"), ":1: middleware: this program runs no Python");
  EXPECT_NE(error(std::string(2 << 20, '#')), "");
  EXPECT_NE(error("kwargs: " + std::string(5000, '[')), "");
  EXPECT_NE(parse({"--config", "/nowhere.yaml"}).error.find("/nowhere.yaml"), std::string::npos);
}

TEST(FlagHelp, SaysEveryFlagOnce) {
  Settings settings;
  const FlagTable table = table_of(settings);
  const std::string text = help_text(table, "");
  for (const Flag& flag : table.flags()) {
    const std::string heading = flag_heading(flag);
    const size_t first = text.find("  " + heading.substr(0, heading.find(',')));
    EXPECT_NE(first, std::string::npos) << heading;
  }
  EXPECT_EQ(help_text(table, "all"), text);
  EXPECT_EQ(help_text(table, "listgroup"), "One (OneConfig)\nTwo\n");
  EXPECT_EQ(help_text(table, "oneconfig"), help_text(table, "One"));
  EXPECT_EQ(help_text(table, "One").find("--strict"), std::string::npos);
  EXPECT_NE(help_text(table, "max-num").find("--max-num-seqs"), std::string::npos);
  EXPECT_THROW(help_text(table, "zzz"), Error);
  EXPECT_EQ(parse({"--port", "x", "--help=Two"}).report.help, "Two");
}

TEST(FlagHelp, Wraps) {
  EXPECT_EQ(wrapped("aa bb cc", 2, 22), "  aa bb cc\n");
  EXPECT_EQ(wrapped("aaaaaaaaaaaaaaaaaa bb", 2, 22), "  aaaaaaaaaaaaaaaaaa\n  bb\n");
  EXPECT_EQ(wrapped(std::string(30, 'a') + " b", 0, 20), std::string(30, 'a') + "\nb\n");
}

TEST(HumanNumber, Table) {
  const std::pair<const char*, int64_t> numbers[] = {{"131072", 131072},
                                                     {"1k", 1000},
                                                     {"25.6k", 25600},
                                                     {"1m", 1'000'000},
                                                     {"1K", 1024},
                                                     {"512K", 524288},
                                                     {"1M", 1'048'576},
                                                     {"2g", 2'000'000'000},
                                                     {"1G", 1 << 30},
                                                     {"1T", int64_t{1} << 40},
                                                     {"1", 1},
                                                     {"0.001k", 1},
                                                     {"1048576", 1'048'576}};
  for (const auto& [text, value] : numbers) EXPECT_EQ(HumanNumber{}(text), value) << text;
  for (const char* text : {"", "k", "1.048576e+06", "1.5K", "1.5", "-1", "0", "abc", "1kk", "0x10",
                           "99999999T", " 1", "1..2k", "nan", "inf"}) {
    EXPECT_THROW(HumanNumber{}(text), Error) << text;
  }
  EXPECT_FALSE(HumanNumberOrAuto{}("auto"));
  EXPECT_FALSE(HumanNumberOrAuto{}("-1"));
  EXPECT_EQ(HumanNumberOrAuto{}("8k"), 8000);
}

}  // namespace
}  // namespace glint
