#include "tensor/safetensors.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/numeric.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace glint {
namespace {

const std::filesystem::path kData = std::filesystem::path(GLINT_TEST_DATA) / "tensor";

std::string with_length(const std::string& header, uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xFFU);
  return bytes + header;
}

/// Parses a file that has this header and `data_bytes` bytes of data.
SafetensorsTable parse(const std::string& header, int64_t data_bytes) {
  const std::string head = with_length(header, header.size());
  return parse_safetensors(head, static_cast<int64_t>(head.size()) + data_bytes, "f.safetensors");
}

void expect_refused(const std::string& header, int64_t data_bytes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(header);
  std::vector<std::string> all = parts;
  all.emplace_back("f.safetensors: ");
  expect_error([&] { (void)parse(header, data_bytes); }, all);
}

template <class T>
T element(const SafetensorsFile& file, const std::string& name, size_t i) {
  return load_unaligned<T>(file.data(file.at(name)).data() + i * sizeof(T));
}

TEST(Safetensors, ReadsAFileOfTheReferenceLibrary) {
  const SafetensorsFile file(kData / "rust.safetensors");
  EXPECT_EQ(file.table().tensors().size(), 6U);
  EXPECT_EQ(file.table().metadata().at("note"), "\xC3\xA4");
  EXPECT_EQ(file.at("matrix").shape, (Shape{3, 4}));
  EXPECT_EQ(file.at("matrix").dtype, Dtype::f32);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(element<float>(file, "matrix", i), static_cast<float>(i) / 8);
  EXPECT_EQ(file.at("scalar").shape, Shape{});
  EXPECT_EQ(element<double>(file, "scalar", 0), 2.5);
  EXPECT_EQ(file.at("empty").bytes(), 0);
  EXPECT_EQ(file.at("flags").dtype, Dtype::boolean);
  EXPECT_EQ(element<int64_t>(file, "long", 1), int64_t{1} << 40);
  EXPECT_EQ(file.table().find("matri"), nullptr);
  expect_error([&] { (void)file.at("nothing"); }, {"rust.safetensors", "nothing"});
}

TEST(Safetensors, WritesTheBytesOfPythonsJson) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "out.safetensors";
  const std::vector<std::string> names = {"plain.weight", "quote\"backslash\\", "tab\tnewline\n\x01\x7F",
                                          "\xC3\xA4\xE4\xB8\xAD\xF0\x9F\x98\x80/"};
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < names.size(); ++i)
    specs.push_back({names[i], Dtype::f32, {static_cast<int64_t>(i) + 1}});
  SafetensorsWriter writer(path, specs);
  for (size_t i = specs.size(); i-- > 0;) {  // any order
    for (size_t k = 0; k <= i; ++k) {
      const auto value = static_cast<float>(k);
      writer.write(i, static_cast<int64_t>(4 * k), std::span(&value, 1));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "the name must not exist before the file is whole";
  writer.finish();
  EXPECT_EQ(read_file(path), read_file(kData / "json.safetensors"));
}

TEST(Safetensors, HeadersArePaddedToEightAndNoMore) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "out.safetensors";
  for (size_t length = 1; length <= 8; ++length) {
    SafetensorsWriter writer(path, {{std::string(length, 'x'), Dtype::u8, {0}}});
    writer.finish();
    const std::string bytes = read_file(path);
    EXPECT_EQ(bytes.size() % 8, 0U);
    EXPECT_LT(bytes.size() - bytes.find_last_not_of(' '), 9U) << "at most seven spaces";
  }
}

TEST(Safetensors, AnUnfinishedFileLeavesNothing) {
  const TempFolder folder;
  {
    SafetensorsWriter writer(folder.path() / "out.safetensors", {{"a", Dtype::u8, {4}}});
    EXPECT_THROW(writer.finish(), Error);  // four bytes are missing
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const auto make = [&](const std::vector<TensorSpec>& specs) {
    SafetensorsWriter(folder.path() / "x", specs);
  };
  expect_error([&] { make({{"a", Dtype::u8, {1}}, {"a", Dtype::u8, {1}}}); }, {"twice", "\"a\""});
  expect_error([&] { make({{"a\xFF", Dtype::u8, {1}}}); }, {"UTF-8"});
  expect_error([&] { make({{"a", Dtype::f64, {int64_t{1} << 61}}}); }, {"too large"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, AcceptsPaddingAnyOrderAndEmptyTensors) {
  const SafetensorsTable table = parse(
      R"({"b":{"data_offsets":[4,8],"shape":[4],"dtype":"U8"},"z":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      8);
  ASSERT_EQ(table.tensors().size(), 3U);
  EXPECT_EQ(table.tensors()[0].name, "a");
  EXPECT_EQ(table.tensors()[2].name, "b");
  EXPECT_EQ(table.find("b")->begin, 4);
  EXPECT_TRUE(parse("{}", 0).tensors().empty());
}

TEST(Safetensors, RefusesBadLengths) {
  const auto parse_head = [](const std::string& head, int64_t file_bytes) {
    (void)parse_safetensors(head, file_bytes, "f.safetensors");
  };
  expect_error([&] { parse_head("", 0); }, {"f.safetensors: truncated"});
  expect_error([&] { parse_head("1234567", 7); }, {"truncated", "7 bytes"});
  expect_error([&] { parse_head(with_length("", 100'000'001), int64_t{1} << 40); },
               {"100000001", "100000000"});
  expect_error([&] { parse_head(with_length("", UINT64_MAX), 100); }, {"18446744073709551615"});
  expect_error([&] { parse_head(with_length("{}", 3), 10); }, {"truncated", "needs 3"});
  expect_error([&] { parse_head(with_length("", 0), 8); }, {"'{'"});
  expect_error([&] { parse_head(with_length(" {}", 3), 11); }, {"'{'"});
}

TEST(Safetensors, RefusesBadStructure) {
  expect_refused("{", 0, {"JSON"});
  expect_refused("{}x", 0, {"JSON"});
  expect_refused("{\"a\xFF\":1}", 0, {"JSON"});
  expect_refused(R"({"a":1})", 0, {"\"a\"", "the number 1", "object"});
  expect_refused(R"({"a":null})", 0, {"\"a\"", "null"});
  expect_refused(R"({"a":[]})", 0, {"\"a\"", "list"});
  expect_refused(R"({"a":{}})", 0, {"\"a\"", "no dtype"});
  expect_refused(R"({"a":{"dtype":"U8"}})", 0, {"\"a\"", "no shape"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[0]}})", 0, {"\"a\"", "no data_offsets"});
  expect_refused(R"({"a":{"dtype":7}})", 0, {"\"a\"", "dtype is the number 7"});
  expect_refused(R"({"a":{"dtype":"F4"}})", 0, {"\"a\"", "dtype \"F4\" is unknown"});
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8"}})", 0, {"\"a\"", "dtype stands twice"});
  expect_refused(R"({"a":{"color":"red"}})", 0, {"\"a\"", "unknown field \"color\""});
  expect_refused(R"({"a":{"shape":{}}})", 0, {"\"a\"", "shape is an object"});
  expect_refused(R"({"a":{"shape":[[1]]}})", 0, {"\"a\"", "shape holds a list"});
  expect_refused(R"({"a":{"shape":["1"]}})", 0, {"\"a\"", "shape holds a string"});
  expect_refused(R"({"a":{"shape":[-1]}})", 0, {"\"a\"", "-1"});
  expect_refused(R"({"a":{"shape":[1.5]}})", 0, {"\"a\"", "1.5"});
  expect_refused(R"({"a":{"shape":[18446744073709551615]}})", 0, {"\"a\"", "too large"});
  expect_refused(R"({"a":{"shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}})", 0, {"\"a\"", "more than 16"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1,
                 {"\"a\"", "1 numbers, expected 2"});
  expect_refused(R"({"__metadata__":{"n":1}})", 0, {"__metadata__", "\"n\"", "string"});
  expect_refused(R"({"__metadata__":{"n":{}}})", 0, {"__metadata__", "\"n\"", "object"});
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, {"__metadata__ stands twice"});
  expect_refused(R"({"__metadata__":{"n":"1","n":"2"}})", 0, {"__metadata__", "\"n\" stands twice"});
  expect_refused(R"({"x\ny":{"dtype":"Z"}})", 0, {R"(\n)"});  // stays on one line
}

TEST(Safetensors, RefusesBadLayout) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  expect_refused("{" + a + "," + a + "}", 4, {"\"a\"", "twice"});
  expect_refused("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})", 7,
                 {"\"b\"", "overlap"});
  expect_refused("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4,
                 {"\"b\"", "overlap"});
  expect_refused("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})", 9, {"\"b\"", "hole"});
  expect_refused(R"({"b":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5, {"\"b\"", "hole"});
  expect_refused("{" + a + "}", 3, {"\"a\"", "out of range", "3 bytes", "truncated"});
  expect_refused("{" + a + "}", 5, {"1 bytes after the last tensor"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4, {"\"a\"", "backwards"});
  expect_refused(R"({"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,4]}})", 4,
                 {"\"a\"", "BF16 [4] needs 8"});
  expect_refused(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                 {"\"a\"", "overflows"});
  expect_refused(R"({"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}})", 0,
                 {"\"a\"", "overflows"});
  const std::string far = R"("data_offsets":[9223372036854775806,9223372036854775807])";
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],)" + far + "}}", 4, {"\"a\"", "out of range"});
}

TEST(Safetensors, FilesThatAreNoFiles) {
  const TempFolder folder;
  expect_error([&] { (void)SafetensorsFile(folder.path() / "none"); }, {"none", "No such file"});
  expect_error([&] { (void)SafetensorsFile(folder.path()); }, {"not a regular file"});
  write_file_atomically(folder.path() / "empty", "");
  expect_error([&] { (void)SafetensorsFile(folder.path() / "empty"); }, {"empty", "truncated"});
  const std::string whole = read_file(kData / "rust.safetensors");
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto read_cut = [&] {
      (void)parse_safetensors(whole.substr(0, size), static_cast<int64_t>(size), "cut");
    };
    EXPECT_THROW(read_cut(), Error) << size;
  }
}

}  // namespace
}  // namespace glint
