#include "data/manifest/manifest.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/manifest/dataset.h"
#include "data/manifest/initial_values.h"
#include "data/manifest/reference.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

const std::string kPrograms = source_directory() + "/data/programs/";

Shape s32_rows(int64_t rows, int64_t columns) {
  Shape shape;
  shape.type = PrimitiveType::kS32;
  shape.dimensions = {rows, columns};
  return shape;
}

// The check values of data/programs/README.md, computed there by numpy.
TEST(InitialValues, AreTheBitsThatNumpyMakes) {
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafULL);
  const uint32_t expected[] = {3145495196U, 3187991181U, 3189844977U};
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(uniform_value(1000, i, 0.216506)),
              expected[i]);
  }
}

TEST(InitialValues, ChooseTheRecordsThatNumpyChooses) {
  const uint64_t first[] = {1052, 835, 1307, 250};
  const uint64_t later[] = {1486, 710, 389, 1011};
  for (uint64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(batch_hash(17, 0, 0, row) % 1797, first[row]);
    EXPECT_EQ(batch_hash(17, 3, 1, row) % 1797, later[row]);
  }
}

TEST(Manifest, OfEveryShippedProgramFitsIt) {
  for (const char* name :
       {"mlp.1", "mlp.2", "mlp.4", "gpt.1", "gpt.2", "gpt.4"}) {
    const std::string path = kPrograms + name + ".hlo";
    const Result<Module> module = parse_hlo_file(path);
    ASSERT_TRUE(module) << module.error().message;
    const Result<Manifest> manifest = load_manifest_for(path);
    ASSERT_TRUE(manifest) << manifest.error().message;
    const Status fits = validate_manifest(*manifest, *module);
    EXPECT_TRUE(fits) << fits.error().message;
  }
}

TEST(Manifest, OfAnotherProgramIsRefusedByName) {
  const Result<Module> module = parse_hlo_file(kPrograms + "gpt.2.hlo");
  const Result<Manifest> manifest = load_manifest_for(kPrograms + "mlp.2.hlo");
  ASSERT_TRUE(module && manifest);
  const Status fits = validate_manifest(*manifest, *module);
  ASSERT_FALSE(fits);
  EXPECT_NE(fits.error().message.find("manifest of mlp"), std::string::npos);
}

// A step exported without donation names no aliases; the manifest does.
TEST(Manifest, PairsStateThatTheProgramDoesNotDonate) {
  const Result<Module> donated = parse_hlo_file(kPrograms + "mlp.2.hlo");
  const Result<Manifest> manifest = load_manifest_for(kPrograms + "mlp.2.hlo");
  ASSERT_TRUE(donated && manifest);
  Module module = *donated;
  ASSERT_TRUE(alias_state(*manifest, &module));
  EXPECT_EQ(module, *donated);
  module.aliases.erase(module.aliases.begin() + 3, module.aliases.end());
  ASSERT_TRUE(alias_state(*manifest, &module));
  EXPECT_EQ(module, *donated);
  std::swap(module.aliases[1].parameter, module.aliases[3].parameter);
  const Status other = alias_state(*manifest, &module);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message,
            "manifest of mlp: output 1 is the next value of parameter 1, but "
            "input_output_alias pairs output 1 with 3");
}

TEST(Manifest, ErrorsNameFileAndPlace) {
  const Result<Manifest> cut = parse_manifest("{\"schema\": ", "m.json");
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind, ErrorKind::kParse);
  EXPECT_EQ(cut.error().message.rfind("m.json:", 0), 0U);
  const Result<Manifest> newer =
      parse_manifest(R"({"schema": "reprise.manifest/9"})", "m.json");
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().message.find("reprise.manifest/9"),
            std::string::npos);
}

TEST(BatchSource, ShiftsTextByOneForTheTarget) {
  const Result<Manifest> manifest = load_manifest_for(kPrograms + "gpt.2.hlo");
  ASSERT_TRUE(manifest);
  const Result<BatchSource> source =
      BatchSource::open(*manifest->dataset, 2, manifest->folders);
  ASSERT_TRUE(source) << source.error().message;
  const Shape shape = s32_rows(2, manifest->dataset->sequence);
  const size_t count = static_cast<size_t>(element_count(shape));
  std::vector<int32_t> x(count);
  std::vector<int32_t> y(count);
  ASSERT_TRUE(source->check("x", shape) && source->check("y", shape));
  source->fill("x", shape, 0, 0, std::as_writable_bytes(std::span(x)));
  source->fill("y", shape, 0, 0, std::as_writable_bytes(std::span(y)));
  const size_t row = static_cast<size_t>(shape.dimensions[1]);
  for (size_t i = 0; i + 1 < row; ++i) EXPECT_EQ(x[i + 1], y[i]);
  EXPECT_FALSE(source->check("z", shape));
  EXPECT_FALSE(source->check("x", s32_rows(2, 7)));
}

// Values of s32 and f64 behind a byte; the same record fills any type.
TEST(BatchSource, ReadsRecordsOfWiderTypes) {
  const std::string path = ::testing::TempDir() + "wide.bin";
  std::string record(1 + 2 * 4 + 8, '\0');
  const int32_t integers[] = {-3, 70000};
  const double number = 0.25;
  std::memcpy(record.data() + 1, integers, sizeof integers);
  std::memcpy(record.data() + 9, &number, sizeof number);
  ASSERT_TRUE(write_file_atomically(path, record));
  const Result<Manifest> manifest = parse_manifest(
      R"({"schema": "reprise.manifest/1", "name": "n", "program": "n.hlo",
          "ranks": 1, "parameters": [], "outputs": [], "dataset": {"kind":
          "records", "file": "wide.bin", "record_bytes": 17, "fields": [
          {"name": "i", "type": "i32", "offset": 1, "count": 2, "scale": 0.5},
          {"name": "d", "type": "f64", "offset": 9, "count": 1}]}})",
      "wide.json");
  ASSERT_TRUE(manifest) << manifest.error().message;
  const auto source =
      BatchSource::open(*manifest->dataset, 1, {::testing::TempDir(), ""});
  ASSERT_TRUE(source) << source.error().message;
  Shape shape;
  shape.dimensions = {1, 2};
  std::vector<float> floats(2);
  ASSERT_TRUE(source->check("i", shape));
  source->fill("i", shape, 0, 0, std::as_writable_bytes(std::span(floats)));
  EXPECT_EQ(floats, (std::vector<float>{-1.5, 35000}));
  Shape scalar;
  scalar.type = PrimitiveType::kF64;
  std::vector<double> doubles(1);
  ASSERT_TRUE(source->check("d", scalar));
  source->fill("d", scalar, 0, 0, std::as_writable_bytes(std::span(doubles)));
  EXPECT_EQ(doubles[0], 0.25);
}

TEST(Manifest, ErrorsSayWhereTheyAre) {
  const auto said = [](const std::string& parameter) {
    return parse_manifest(
               R"({"schema": "reprise.manifest/1", "name": "n", "program": "n",
                   "ranks": 1, "outputs": [], "parameters": [)" +
                   parameter + "]}",
               "n.json")
        .error()
        .message;
  };
  EXPECT_EQ(said(R"({"index": 0, "name": "w", "role": "state",
                     "init": {"kind": "uniform", "seed": 1}})"),
            "n.json: parameters[0] ('w'): 'scale' is missing");
  EXPECT_EQ(said(R"({"index": 0, "name": "w", "role": "state",
                     "init": {"kind": "file"}})"),
            "n.json: parameters[0] ('w'): init kind 'file' is not uniform, "
            "zeros, ones, constant or tensor (of a file)");
  for (const char* index : {"1.5", "-1", "9223372036854775808", "1e3"}) {
    EXPECT_NE(said(std::string(R"({"name": "w", "role": "batch", "field": "x",
                                   "index": )") +
                   index + "}")
                  .find("n.json: parameters[0] ('w'): 'index' is "),
              std::string::npos)
        << index;
  }
  EXPECT_EQ(said(R"({"index": "0", "name": "w", "role": "batch",
                     "field": "x"})"),
            "n.json: parameters[0] ('w'): 'index' is string, expected a whole "
            "number from 0 to 9223372036854775807");
}

// Names as optax, flax and PyTorch give them, and as XLA mangles them.
TEST(InitialValues, FollowNames) {
  const auto guessed = [](const char* name, std::vector<int64_t> dimensions,
                          PrimitiveType type = PrimitiveType::kF32) {
    Shape shape;
    shape.type = type;
    shape.dimensions = std::move(dimensions);
    ManifestParameter parameter;
    parameter.name = name;
    guess_initial_value(shape, &parameter);
    return parameter.init;
  };
  for (const char* zero :
       {"state['opt'][0].nu['dense']['kernel']", "v.w1", "m.w1",
        "state__opt_state___0__mu__Dense_0____kernel__.1",
        "opt['momentum']['w']", "params['dense']['bias']",
        "batch_stats['bn']['mean']", "exp_avg_sq.layer.weight"}) {
    EXPECT_EQ(guessed(zero, {3, 4}), InitKind::kZeros) << zero;
  }
  for (const char* one : {"params['norm']['scale']", "ln.gamma",
                          "s__batch_stats____BatchNorm_0____var__.2"}) {
    EXPECT_EQ(guessed(one, {4}), InitKind::kOnes) << one;
  }
  for (const char* weight : {"params['mul']['kernel']", "layers[3].v.w",
                             "params['value']['kernel']", "w1"}) {
    EXPECT_EQ(guessed(weight, {3, 4}), InitKind::kUniform) << weight;
  }
  EXPECT_EQ(guessed("opt.count", {}, PrimitiveType::kS32), InitKind::kZeros);
  EXPECT_EQ(guessed("hyperparams['learning_rate']", {}), InitKind::kConstant);
}

TEST(BatchSource, IsMadeUpWhereNothingMayBeRead) {
  for (const char* name : {"mlp.2", "gpt.2"}) {
    Result<Manifest> manifest =
        load_manifest_for(kPrograms + name + std::string(".hlo"));
    ASSERT_TRUE(manifest);
    manifest->dataset->file = "/dev/zero";
    const auto outside =
        BatchSource::open(*manifest->dataset, 2, manifest->folders);
    ASSERT_FALSE(outside);
    EXPECT_NE(outside.error().message.find("--data"), std::string::npos);
    EXPECT_TRUE(BatchSource::open(*manifest->dataset, 2, {}));
    manifest->dataset->record_bytes = int64_t{1} << 40;
    manifest->dataset->sequence = int64_t{1} << 40;
    EXPECT_FALSE(BatchSource::open(*manifest->dataset, 2, {}));
  }
}

// Exact digests: |(2,2) - (1,2)| / |(1,2)| = 1 / sqrt(5), by hand.
TEST(Reference, MeasuresRelativeErrorOfTheChange) {
  const ReferenceTensor reference{
      .index = 0, .name = "t", .exact = true, .values = {1, 2}};
  const float initial[] = {5, 5};
  const float final[] = {7, 7};
  const Result<double> error =
      relative_error_of_change(reference, initial, final);
  ASSERT_TRUE(error);
  EXPECT_NEAR(*error, 1 / std::sqrt(5.0), 1e-12);
  const float nan[] = {NAN, 7};
  EXPECT_TRUE(std::isnan(*relative_error_of_change(reference, initial, nan)));
}

}  // namespace
}  // namespace reprise
