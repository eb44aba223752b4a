#include "data/io/tensor_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "data/element.h"
#include "data/file.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

const std::string kCorpus =
    source_directory() + "/tests/fuzz/corpus/tensor_file/";

std::string scratch(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "tensor_file_test";
  std::filesystem::create_directories(folder);
  return folder + "/" + name;
}

/// A safetensors file of this header and as many bytes behind it.
Result<TensorFile> opened(const std::string& header, size_t bytes) {
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    text[i] = static_cast<char>(header.size() >> (8 * i));
  const std::string path = scratch("made.safetensors");
  EXPECT_TRUE(
      write_file_atomically(path, text + header + std::string(bytes, 'x')));
  return TensorFile::open(path);
}

std::string refusal(const std::string& header, size_t bytes) {
  const Result<TensorFile> file = opened(header, bytes);
  return file ? "" : file.error().message;
}

template <typename T>
std::vector<T> values_of(const TensorEntry& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// The three files of the corpus hold the same arrays, written by numpy (one in
// Fortran order, one of bf16) and by a script.
TEST(TensorFile, ReadsWhatNumpyAndSafetensorsWrite) {
  for (const char* name : {"stored.npz", "deflated.npz", "state.safetensors"}) {
    SCOPED_TRACE(name);
    const Result<TensorFile> file = TensorFile::open(kCorpus + name);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(file->tensors().size(), 6u);
    const TensorEntry* w = file->find("w");
    ASSERT_NE(w, nullptr);
    EXPECT_EQ(w->text(), "f32[2,3]");
    EXPECT_EQ(values_of<float>(*w), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(values_of<int16_t>(*file->find("t")),
              (std::vector<int16_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(file->find("count")->text(), "s32[]");
    EXPECT_EQ(file->find("mask")->text(), "pred[2]");
    EXPECT_EQ(file->find("none")->bytes.size(), 0u);
    // 1.5 and -2 in bf16.
    EXPECT_EQ(values_of<uint16_t>(*file->find("b")),
              (std::vector<uint16_t>{0x3fc0, 0xc000}));
    const bool is_npz = std::string(name).ends_with("npz");
    EXPECT_EQ(file->find("b")->text(),
              is_npz ? "2 bytes an element[2]" : "bf16[2]");
    EXPECT_EQ(file->find("x"), nullptr);
  }
}

TEST(TensorFile, ComesBackAsItWasWritten) {
  const Result<TensorFile> first =
      TensorFile::open(kCorpus + "state.safetensors");
  ASSERT_TRUE(first) << first.error().message;
  for (const char* name : {"again.npz", "again.safetensors"}) {
    const std::string path = scratch(name);
    const Status written =
        write_tensor_file(path, first->tensors(), first->metadata());
    ASSERT_TRUE(written) << written.error().message;
    const Result<TensorFile> second = TensorFile::open(path);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->metadata(), first->metadata());
    ASSERT_EQ(second->tensors().size(), first->tensors().size());
    for (const TensorEntry& tensor : first->tensors()) {
      const TensorEntry* other = second->find(tensor.name);
      ASSERT_NE(other, nullptr) << tensor.name;
      EXPECT_EQ(other->bytes, tensor.bytes);
      EXPECT_EQ(other->dimensions, tensor.dimensions);
    }
  }
}

// c64[2] is written as such and read as the parts of two numbers.
TEST(TensorFile, ReadsComplexNumbersAsPairs) {
  const std::vector<float> parts = {1, 2, 3, 4};
  TensorEntry entry;
  entry.name = "z";
  entry.type = PrimitiveType::kC64;
  entry.element_bytes = 8;
  entry.dimensions = {2};
  entry.bytes = {reinterpret_cast<const char*>(parts.data()), 16};
  for (const char* name : {"complex.npz", "complex.safetensors"}) {
    const std::string path = scratch(name);
    ASSERT_TRUE(write_tensor_file(path, {entry}, {}));
    std::ifstream stream(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    const bool is_npz = std::string(name).ends_with("npz");
    EXPECT_NE(bytes.find(is_npz ? "<c8" : "\"C64\""), std::string::npos);
    const Result<TensorFile> file = TensorFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->find("z")->text(), "f32[2,2]");
    EXPECT_EQ(values_of<float>(*file->find("z")), parts);
  }
}

TEST(TensorFile, RefusesHeadersThatContradictTheFile) {
  const auto entry = [](const char* name, const char* type, const char* shape,
                        const char* place) {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})",
                       name, type, shape, place);
  };
  const std::string good = entry("a", "F32", "[2]", "[0,8]");
  EXPECT_EQ(refusal("{" + good + "}", 8), "");
  const std::pair<std::string, const char*> cases[] = {

      {"{" + entry("a", "F32", "[3]", "[0,8]") + "}", "takes 12"},
      {"{" + entry("a", "F32", "[-2]", "[0,8]") + "}", "an extent is -2"},
      {"{" + entry("a", "F32", "[4294967296,4294967296,4]", "[0,8]") + "}",
       "too large"},
      {"{" + entry("a", "F32", "[2]", "[8,0]") + "}", "lies at bytes"},
      {"{" + entry("a", "F32", "[2]", "[0,800]") + "}", "lies at bytes"},
      {"{" + entry("a", "F32", "[2]", "[-1,7]") + "}", "no two places"},
      {"{" + entry("a", "C128", "[1]", "[0,16]") + "}", "elements of C128"},
      {"{" + good + "," + good + "}", "stands twice"},
      {"[1]", "no JSON object"},
      {"{" + entry("a", "F32", "[1.5]", "[0,8]") + "}", "no integer"},
      {R"({"a":{"dtype":"F32"}})", "'shape' is missing"},
      {R"({"__metadata__":{"a":1}})", "no text"},
  };
  const std::string four = entry("b", "F32", "[1]", "[4,8]");
  EXPECT_NE(refusal("{" + good + "," + four + "}", 8).find("arrays overlap"),
            std::string::npos);
  EXPECT_NE(refusal("{" + entry("a", "F32", "[1]", "[4,8]") + "}", 8)
                .find("starts at byte 4, expected 0"),
            std::string::npos);
  for (const auto& [header, expected] : cases)
    EXPECT_NE(refusal(header, 8).find(expected), std::string::npos)
        << header << "\n"
        << refusal(header, 8);
  EXPECT_NE(refusal("{}", 8).find("take 0 bytes, it holds 8"),
            std::string::npos);
}

TEST(TensorFile, RefusesWhatIsNeitherAndPicklesOfObjects) {
  const std::string path = scratch("text");
  ASSERT_TRUE(write_file_atomically(path, "some text, no arrays"));
  EXPECT_NE(TensorFile::open(path).error().message.find(
                "neither .npz nor safetensors"),
            std::string::npos);
  EXPECT_FALSE(TensorFile::open(scratch("missing")));
  EXPECT_FALSE(TensorFile::open(::testing::TempDir()));
  std::string npz = *read_file(kCorpus + "stored.npz");
  for (size_t at = npz.find("'<f4'"); at != std::string::npos;
       at = npz.find("'<f4'", at + 1))
    npz.replace(at, 5, "'|O8'");
  ASSERT_TRUE(write_file_atomically(path, npz));
  EXPECT_FALSE(TensorFile::open(path));
}

TEST(Element, OfSixteenBitsIsRoundedToNearestEven) {
  const auto stored = [](PrimitiveType type, double value) {
    std::byte bytes[2];
    store_element(type, value, bytes);
    return std::bit_cast<uint16_t>(bytes);
  };
  EXPECT_EQ(stored(PrimitiveType::kBF16, 1.00390625),
            0x3f80);  // 1 + 2^-8: a tie, down.
  EXPECT_EQ(stored(PrimitiveType::kBF16, 1.01171875),
            0x3f82);  // 1 + 3*2^-8: a tie, up.
  EXPECT_EQ(stored(PrimitiveType::kF16, 65504), 0x7bff);
  EXPECT_EQ(stored(PrimitiveType::kF16, 65520), 0x7c00);  // Halfway to 65536.
  EXPECT_EQ(stored(PrimitiveType::kF16, 1e300), 0x7c00);
  EXPECT_EQ(stored(PrimitiveType::kF16, -0x1p-24),
            0x8001);                                   // The least subnormal.
  EXPECT_EQ(stored(PrimitiveType::kF16, 0x1p-25), 0);  // Half of it: even is 0.
  EXPECT_EQ(stored(PrimitiveType::kF16, std::nan("")) & 0x7fff, 0x7e00);
  // The compiler's own conversions know binary16 and, by truncation, bfloat16.
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    std::byte bytes[2];
    store_element(PrimitiveType::kBF16, static_cast<double>(value), bytes);
    uint32_t bits = std::bit_cast<uint32_t>(value);
    bits += 0x7fff + ((bits >> 16) & 1);
    EXPECT_EQ(std::bit_cast<uint16_t>(bytes), bits >> 16) << value;
  }
}

TEST(Element, EveryHalfComesBack) {
  for (const PrimitiveType type : {PrimitiveType::kF16, PrimitiveType::kBF16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      std::byte bytes[2], again[2];
      const auto half = static_cast<uint16_t>(bits);
      std::memcpy(bytes, &half, 2);
      const double value = load_element(type, bytes);
      if (std::isnan(value)) continue;
      store_element(type, value, again);
      EXPECT_EQ(std::bit_cast<uint16_t>(again), half);
    }
  }
}

TEST(Element, OfAnIntegerStaysWithinItsType) {
  std::byte bytes[8];
  store_element(PrimitiveType::kS8, 1000, bytes);
  EXPECT_EQ(load_element(PrimitiveType::kS8, bytes), 127);
  store_element(PrimitiveType::kU32, -5, bytes);
  EXPECT_EQ(load_element(PrimitiveType::kU32, bytes), 0);
  store_element(PrimitiveType::kS64, 1e30, bytes);
  EXPECT_EQ(load_element(PrimitiveType::kS64, bytes),
            static_cast<double>(std::numeric_limits<int64_t>::max()));
  store_element(PrimitiveType::kPred, 2, bytes);
  EXPECT_EQ(load_element(PrimitiveType::kPred, bytes), 1);
}

}  // namespace
}  // namespace reprise
