#include "data/hlo/proto/hlo_proto.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "data/file.h"
#include "data/hlo/hlo.h"
#include "data/hlo/hlo_verifier.h"
#include "data/io/byte_source.h"
#include "data/io/proto_writer.h"
#include "data/io/protobuf.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

const std::string kTraces = shared_directory() + "/traces/";

constexpr int64_t kF32 = 11, kPredType = 1;

/// A ShapeProto `f32[extents]{layout}`.
ProtoWriter shape(std::string_view extents, int64_t type = kF32) {
  ProtoWriter writer;
  writer.varint(2, static_cast<uint64_t>(type)).bytes(3, extents);
  std::string order;
  for (size_t i = extents.size(); i > 0; --i) {
    order += static_cast<char>(i - 1);
  }
  return writer.message(5, ProtoWriter().bytes(1, order));
}

/// An HloInstructionProto; `operands` are ids, a byte each.
ProtoWriter instruction(std::string_view name, std::string_view opcode,
                        uint64_t id, const ProtoWriter& type,
                        std::string_view operands = {}) {
  return ProtoWriter()
      .bytes(1, name)
      .bytes(2, opcode)
      .message(3, type)
      .varint(35, id)
      .bytes(36, operands);
}

/// An HloModuleProto of the computation "main", whose root has the id `root`,
/// behind what `callees` holds.
std::string module_of(const std::vector<ProtoWriter>& instructions,
                      uint64_t root, const ProtoWriter& callees = {}) {
  ProtoWriter computation;
  computation.bytes(1, "main").varint(5, 1).varint(6, root);
  for (const ProtoWriter& one : instructions) computation.message(2, one);
  return ProtoWriter().bytes(1, "small").bytes(2, "main").text() +
         callees.text() +
         ProtoWriter().message(3, computation).varint(6, 1).text();
}

/// The text behind `%name = ` in the module's text.
std::string line_of(const std::string& proto, const std::string& name) {
  const auto text = hlo_proto_text(proto);
  if (!text) return text.error().message;
  const std::string start = "%" + name + " = ";
  const size_t at = text->find(start);
  if (at == text->npos) return "none in " + *text;
  const size_t from = at + start.size();
  return text->substr(from, text->find('\n', from) - from);
}

TEST(HloProto, SpellsASmallModule) {
  const std::string proto = module_of(
      {instruction("x", "parameter", 7, shape("\2\3")),
       instruction("sum", "add", 9, shape("\2\3"), "\7\7")
           .message(7, ProtoWriter().bytes(2, "jit(f)/add").varint(4, 12))},
      9);
  const auto text = hlo_proto_text(proto);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(*text,
            "HloModule small\n"
            "\n"
            "ENTRY %main (x: f32[2,3]) -> f32[2,3] {\n"
            "  %x = f32[2,3]{1,0} parameter(0)\n"
            "  ROOT %sum = f32[2,3]{1,0} add(%x, %x), "
            "metadata={op_name=\"jit(f)/add\" source_line=12}\n"
            "}\n");
  const auto module = parse_hlo_proto(proto);
  ASSERT_TRUE(module.has_value()) << module.error().message;
  EXPECT_EQ(module->entry_computation().instructions.size(), 2U);
}

TEST(HloProto, FindsTheModuleInHloProtoAndSnapshot) {
  const std::string module =
      module_of({instruction("x", "parameter", 7, shape("\2"))}, 7);
  const std::string proto = ProtoWriter().bytes(1, module).text();
  const std::string snapshot = ProtoWriter().bytes(1, proto).text();
  EXPECT_TRUE(starts_like_hlo_proto(module));
  EXPECT_TRUE(starts_like_hlo_proto(proto));
  EXPECT_TRUE(starts_like_hlo_proto(snapshot));
  EXPECT_EQ(*hlo_proto_text(proto), *hlo_proto_text(module));
  EXPECT_EQ(*hlo_proto_text(snapshot), *hlo_proto_text(module));
  EXPECT_FALSE(starts_like_hlo_proto("HloModule m\nENTRY e {"));
  EXPECT_FALSE(starts_like_hlo_proto(std::string(100, '\0')));
}

ProtoWriter all_reduce() {
  return instruction("ar", "all-reduce", 8, shape("\2"), "\7")
      .bytes(38, "\2")
      .varint(26, 5);
}

std::string with_reduction(const ProtoWriter& collective) {
  ProtoWriter add;
  add.bytes(1, "add").varint(5, 2).varint(6, 3);
  add.message(2, instruction("a", "parameter", 1, shape("")));
  add.message(2, instruction("b", "parameter", 2, shape("")).varint(9, 1));
  add.message(2, instruction("c", "add", 3, shape(""), "\1\2"));
  return module_of({instruction("x", "parameter", 7, shape("\2")), collective},
                   8, ProtoWriter().message(3, add));
}

/// The three places that groups have had: 49 a list, 87 either list, 92 iota.
TEST(HloProto, ReadsReplicaGroupsOfAllVersions) {
  const ProtoWriter pair = ProtoWriter().bytes(1, std::string("\0\1", 2));
  const ProtoWriter other = ProtoWriter().bytes(1, "\2\3");
  // [2,2]<=[2,2]T(1,0): groups {0,2} and {1,3}.
  const ProtoWriter iota =
      ProtoWriter().varint(1, 2).varint(2, 2).bytes(3, "\2\2");
  ProtoWriter turned = iota;
  turned.bytes(4, std::string("\1\0", 2));
  const std::string rest = ", to_apply=%add";
  const std::string head = "f32[2]{0} all-reduce(%x), channel_id=5, ";
  EXPECT_EQ(
      line_of(with_reduction(all_reduce().message(49, pair).message(49, other)),
              "ar"),
      head + "replica_groups={{0,1},{2,3}}" + rest);
  EXPECT_EQ(line_of(with_reduction(all_reduce().message(
                        87, ProtoWriter().message(1, pair).message(1, other))),
                    "ar"),
            head + "replica_groups={{0,1},{2,3}}" + rest);
  EXPECT_EQ(line_of(with_reduction(all_reduce().message(
                        87, ProtoWriter().message(2, iota))),
                    "ar"),
            head + "replica_groups=[2,2]<=[2,2]" + rest);
  EXPECT_EQ(line_of(with_reduction(all_reduce().message(92, turned)), "ar"),
            head + "replica_groups=[2,2]<=[2,2]T(1,0)" + rest);
  const auto module =
      parse_hlo_proto(with_reduction(all_reduce().message(92, turned)));
  ASSERT_TRUE(module.has_value()) << module.error().message;
  const auto& entry = module->entry_computation();
  const auto groups = replica_groups(entry.instructions[1], 4);
  ASSERT_TRUE(groups.has_value());
  EXPECT_EQ(*groups, (std::vector<std::vector<int64_t>>{{0, 2}, {1, 3}}));
}

/// A MeshProto of 'a' and 'b', 4 and 2 long.
ProtoWriter mesh_of_eight() {
  return ProtoWriter()
      .message(1, ProtoWriter().bytes(1, "a").varint(2, 4))
      .message(1, ProtoWriter().bytes(1, "b").varint(2, 2));
}

/// An AxisRefProto of the axis, and of its sub-axis where one is given.
ProtoWriter along(uint64_t axis, uint64_t before = 0, uint64_t size = 0) {
  ProtoWriter reference;
  if (axis != 0) reference.varint(1, axis);
  if (size == 0) return reference;
  return reference.message(2, ProtoWriter().varint(1, before).varint(2, size));
}

/// Field 93, as jaxlib 0.10.2 and 0.11.2 write it where they partition.
TEST(HloProto, ReadsReplicaGroupsOfMeshAxes) {
  const auto groups_of = [](const ProtoWriter& mesh, const ProtoWriter& axis,
                            std::string_view text,
                            const std::vector<std::vector<int64_t>>& ranks) {
    const std::string proto = with_reduction(all_reduce().message(
        93, ProtoWriter().message(1, mesh).message(2, axis)));
    EXPECT_EQ(line_of(proto, "ar"),
              fmt::format("f32[2]{{0}} all-reduce(%x), channel_id=5, "
                          "replica_groups={}, to_apply=%add",
                          text));
    const auto module = parse_hlo_proto(proto);
    ASSERT_TRUE(module.has_value()) << module.error().message;
    const auto groups =
        replica_groups(module->entry_computation().instructions[1], 8);
    ASSERT_TRUE(groups.has_value()) << groups.error().message;
    EXPECT_EQ(*groups, ranks);
  };
  const ProtoWriter mesh = mesh_of_eight();
  groups_of(mesh, along(1), "mesh['a'=4,'b'=2] {'b'}",
            {{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  groups_of(mesh, along(0), "mesh['a'=4,'b'=2] {'a'}",
            {{0, 2, 4, 6}, {1, 3, 5, 7}});
  groups_of(mesh, along(0, 1, 2), "mesh['a'=4,'b'=2] {'a':(1)2}",
            {{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  ProtoWriter listed = mesh;
  listed.bytes(2, std::string("\7\6\5\4\3\1\2\0", 8));
  groups_of(listed, along(1),
            "mesh['a'=4,'b'=2], device_ids=(7,6,5,4,3,1,2,0) {'b'}",
            {{7, 6}, {5, 4}, {3, 1}, {2, 0}});
  // Places hold devices 0, 4, 1, 5, 2, 6, 3, 7.
  ProtoWriter turned = mesh;
  turned.message(
      3, ProtoWriter().bytes(1, "\2\4").bytes(2, std::string("\1\0", 2)));
  groups_of(turned, along(1),
            "mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'b'}",
            {{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

TEST(HloProto, RefusesReplicaGroupsThatItDoesNotKnow) {
  const ProtoWriter mesh = mesh_of_eight();
  ProtoWriter later_mesh = mesh;
  later_mesh.varint(4, 1);
  for (const ProtoWriter& groups :
       {ProtoWriter().message(1, later_mesh).message(2, along(1)),
        ProtoWriter().message(1, mesh).message(2, along(2)),
        ProtoWriter().message(1, mesh).message(2, along(1)).varint(3, 1),
        ProtoWriter().message(1, mesh).message(2, along(1).varint(3, 1))}) {
    EXPECT_EQ(line_of(with_reduction(all_reduce().message(93, groups)), "ar"),
              "<proto>: computation `main`: instruction `ar`: replica groups "
              "of mesh axes in a form that is "
              "not known");
  }
  EXPECT_EQ(line_of(with_reduction(all_reduce().message(200, mesh)), "ar"),
            "<proto>: computation `main`: instruction `ar`: no replica groups "
            "that are known, and field 200 is "
            "not known");
}

/// Field 14 of an OpSharding, as jaxlib 0.11.2 writes it.
TEST(HloProto, SpellsShardingsAlongAxesOfAMesh) {
  const ProtoWriter closed =
      ProtoWriter().message(1, along(0, 2, 2)).varint(2, 1);
  const ProtoWriter open = ProtoWriter().message(1, along(1));
  const ProtoWriter named = ProtoWriter()
                                .message(2, mesh_of_eight())
                                .message(3, closed)
                                .message(3, open)
                                .message(3, ProtoWriter())
                                .message(4, along(0, 1, 2));
  const std::string proto =
      module_of({instruction("x", "parameter", 7, shape("\2\2\2"))
                     .message(40, ProtoWriter().message(14, named))},
                7);
  EXPECT_EQ(line_of(proto, "x"),
            "f32[2,2,2]{2,1,0} parameter(0), sharding={mesh['a'=4,'b'=2], "
            "[{'a':(2)2}, {'b', ?}, {?}], replicated={'a':(1)2}}");
}

// Fields 94 to 96, as jaxlib 0.11.2 writes them. with_reduction names the
// instruction 8 the root; the step is of another form than a scan's, which
// spelling does not ask.
TEST(HloProto, SpellsAScan) {
  const ProtoWriter scan = instruction("scan", "scan", 8, shape("\2"), "\7\7")
                               .bytes(14, std::string(1, '\0'))
                               .bytes(38, "\2")
                               .varint(94, 1)
                               .varint(95, 1)
                               .varint(96, 1);
  EXPECT_EQ(line_of(with_reduction(scan), "scan"),
            "f32[2]{0} scan(%x, %x), dimensions={0}, num_carries=1, "
            "is_reverse=true, is_associative=true, to_apply=%add");
  const ProtoWriter plain = instruction("scan", "scan", 8, shape("\2"), "\7\7")
                                .bytes(14, std::string(1, '\0'))
                                .bytes(38, "\2")
                                .varint(95, 1)
                                .varint(96, 2);
  EXPECT_EQ(line_of(with_reduction(plain), "scan"),
            "f32[2]{0} scan(%x, %x), dimensions={0}, num_carries=1, "
            "is_associative=false, to_apply=%add");
}

// XLA's lexer (HloLexer::LexJsonDict) takes a JSON object as it stands, strings
// with escapes in it; all else is a string.
TEST(HloProto, LeavesAConfigThatIsJsonUnquoted) {
  const auto line = [](std::string_view config) {
    return line_of(
        module_of(
            {instruction("x", "parameter", 7, shape("\2")).bytes(43, config)},
            7),
        "x");
  };
  const std::string start = "f32[2]{0} parameter(0), backend_config=";
  EXPECT_EQ(line(R"({"a":"}","b":{}})"), start + R"({"a":"}","b":{}})");
  EXPECT_EQ(line(R"({"a":"x\"}"})"), start + R"({"a":"x\"}"})");
  EXPECT_EQ(line(R"({"a":"b)"), start + R"("{\"a\":\"b")");
  EXPECT_EQ(line(R"({"a":"\)"), start + R"("{\"a\":\"\\")");
}

TEST(HloProto, OrdersAScheduledModuleByItsSchedule) {
  // Written x, second, first; run x, first, second.
  const ProtoWriter order =
      ProtoWriter().varint(1, 1).message(2, ProtoWriter().bytes(1, "\7\x9\x8"));
  const std::string proto =
      module_of({instruction("x", "parameter", 7, shape("\2")),
                 instruction("second", "negate", 8, shape("\2"), "\x9"),
                 instruction("first", "negate", 9, shape("\2"), "\7")},
                8, ProtoWriter().message(7, ProtoWriter().message(1, order)));
  const auto module = parse_hlo_proto(proto);
  ASSERT_TRUE(module.has_value()) << module.error().message;
  const auto& instructions = module->entry_computation().instructions;
  ASSERT_EQ(instructions.size(), 3U);
  EXPECT_EQ(instructions[1].name, "first");
  EXPECT_EQ(instructions[2].name, "second");
}

/// 0.1 in bf16 is 0x3dcd = 0.10009765625, of which four digits tell it.
TEST(HloProto, SpellsLiteralsAsTheirTypesNeed) {
  const ProtoWriter scalar =
      ProtoWriter().varint(2, 16).message(5, ProtoWriter().bytes(1, ""));
  const auto constant = [&](const ProtoWriter& type, uint32_t field,
                            std::string_view bytes) {
    return line_of(
        module_of({instruction("k", "constant", 7, type)
                       .message(8, ProtoWriter().message(1, type).bytes(
                                       field, bytes))},
                  7),
        "k");
  };
  EXPECT_EQ(constant(scalar, 13, "\xcd\x3d"), "bf16[] constant(0.1001)");
  EXPECT_EQ(constant(shape("\2", kPredType), 2, std::string("\1\0", 2)),
            "pred[2]{0} constant({1, 0})");
  EXPECT_EQ(constant(shape("\2\2"), 8,
                     std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\xcd\xcc"
                                 "\xcc\x3d",
                                 16)),
            "f32[2,2]{1,0} constant({{1, 2}, {3, 0.1}})");
  // Two values for four.
  EXPECT_EQ(constant(shape("\2\2"), 8, std::string(8, '\0')),
            "<proto>: computation `main`: instruction `k`: a literal holds 2 "
            "values for 4");
}

TEST(HloProto, RefusesReferencesToNothing) {
  const auto error = [](const ProtoWriter& one) {
    const auto text = hlo_proto_text(
        module_of({instruction("x", "parameter", 7, shape("\2")), one}, 8));
    return text ? "accepted: " + *text : text.error().message;
  };
  EXPECT_EQ(error(instruction("n", "negate", 8, shape("\2"), "\6")),
            "<proto>: computation `main`: instruction `n`: operand 6 is not in "
            "its computation");
  EXPECT_EQ(
      error(instruction("c", "call", 8, shape("\2"), "\7").bytes(38, "\5")),
      "<proto>: computation `main`: instruction `c`: calls computation 5, "
      "which is not in the module");
  EXPECT_EQ(error(instruction("n", "negate", 8, shape("\2", 999 % 128), "\7")),
            "<proto>: computation `main`: element type 103 of a shape");
  const auto none = hlo_proto_text("no proto at all", "f.pb");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message,
            "f.pb: expected an HLO proto (HloProto, HloModuleProto)");
}

/// Shapes nested a million deep cost no stack.
TEST(HloProto, RefusesEndlesslyNestedShapes) {
  std::string nested = shape("\2").text();
  for (int depth = 0; depth < 2000; ++depth) {
    nested = ProtoWriter().varint(2, 13).bytes(4, nested).text();
  }
  ProtoWriter one;
  one.bytes(1, "x").bytes(2, "parameter").bytes(3, nested).varint(35, 7);
  const auto text = hlo_proto_text(module_of({one}, 7));
  ASSERT_FALSE(text.has_value());
  EXPECT_NE(text.error().message.find("nests deeper"), std::string::npos);
}

struct Recorded {
  std::string name;
  std::string bytes;
};

std::vector<Recorded> protos_in_zip() {
  std::vector<Recorded> protos;
  const std::string zip =
      kTraces + "nsys_jax/maxtext_fsdp4_h100/maxtext_fsdp4_test_data.zip";
  if (!fs::exists(zip)) return protos;
  const Status visited = visit_inputs(zip, [&](InputFile& input) -> Status {
    if (!input.name.ends_with(".hlo.pb.xz")) return {};
    auto bytes = read_all(*input.source, int64_t{1} << 28);
    EXPECT_TRUE(bytes.has_value());
    if (bytes) protos.push_back({input.name, std::move(*bytes)});
    return {};
  });
  EXPECT_TRUE(visited.has_value()) << visited.error().message;
  return protos;
}

/// The HloProtos of the plane /host:metadata: the bytes of its events' stats.
std::vector<Recorded> protos_in_xplane(const std::string& path) {
  std::vector<Recorded> protos;
  const auto space = read_file(path);
  if (!space) return protos;
  for (const std::string_view plane : ProtoMessage(*space).all_bytes(1)) {
    const ProtoMessage message(plane);
    if (message.bytes(2) != "/host:metadata") continue;
    for (const std::string_view entry : message.all_bytes(4)) {
      const ProtoMessage metadata(ProtoMessage(entry).bytes(2));
      for (const std::string_view stat : metadata.all_bytes(5)) {
        protos.push_back({path + ":" + std::string(metadata.bytes(2)),
                          std::string(ProtoMessage(stat).bytes(6))});
      }
    }
  }
  return protos;
}

std::vector<Recorded> recorded_protos() {
  std::vector<Recorded> protos = protos_in_zip();
  for (const char* file :
       {"jax08_gemm_mi300/tw003.xplane.pb",
        "jax_mi300_legacy/"
        "chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb"}) {
    for (Recorded& one : protos_in_xplane(kTraces + "xplane/" + file)) {
      protos.push_back(std::move(one));
    }
  }
  return protos;
}

TEST(HloProto, EveryRecordedProtoIsAFixedPointOfPrintAndParse) {
  const std::vector<Recorded> protos = recorded_protos();
  if (protos.empty()) GTEST_SKIP() << "no recorded traces beside the checkout";
  EXPECT_EQ(protos.size(), 50U);  // 26 of the zip, 16 and 8 of the xplanes.
  for (const Recorded& proto : protos) {
    ASSERT_TRUE(starts_like_hlo_proto(proto.bytes)) << proto.name;
    const auto module = parse_hlo_proto(proto.bytes, proto.name);
    ASSERT_TRUE(module.has_value()) << module.error().message;
    const Status sound = verify(*module);
    EXPECT_TRUE(sound.has_value()) << proto.name << sound.error().message;
    const std::string text = print_hlo(*module);
    const auto again = parse_hlo(text, proto.name);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_TRUE(*again == *module) << proto.name;
    EXPECT_EQ(print_hlo(*again), text) << proto.name;
  }
}

/// Counts of computations and instructions are those of the fields 3 and 2 in
/// the protos, by an independent decoder.
TEST(HloProto, KeepsEveryInstructionOfRecordedModules) {
  const std::map<std::string, std::pair<size_t, size_t>> expected = {
      {"module_0003.jit__unnamed_wrapped_function_.before_optimizations",
       {28, 1526}},
      {"module_0003.jit__unnamed_wrapped_function_.sm_9.0_gpu_after",
       {66, 9157}},
      {"module_0016.jit_train_step.before_optimizations", {99, 1977}},
      {"module_0016.jit_train_step.sm_9.0_gpu_after", {564, 7757}},
      {"jit__normal(9)", {3, 311}},
      {"jit_forward_3d_conv(15)", {4, 19}}};
  const std::vector<Recorded> protos = recorded_protos();
  if (protos.empty()) GTEST_SKIP() << "no recorded traces beside the checkout";
  size_t found = 0;
  for (const Recorded& proto : protos) {
    for (const auto& [name, counts] : expected) {
      if (proto.name.find(name) == std::string::npos) continue;
      ++found;
      const auto module = parse_hlo_proto(proto.bytes, proto.name);
      ASSERT_TRUE(module.has_value()) << module.error().message;
      size_t instructions = 0;
      for (const Computation& computation : module->computations) {
        instructions += computation.instructions.size();
      }
      EXPECT_EQ(module->computations.size(), counts.first) << name;
      EXPECT_EQ(instructions, counts.second) << name;
    }
  }
  EXPECT_EQ(found, expected.size());
}

TEST(HloProto, CutsOfARecordedProtoAreErrorsAtMost) {
  const std::vector<Recorded> protos = recorded_protos();
  if (protos.empty()) GTEST_SKIP() << "no recorded traces beside the checkout";
  const std::string& bytes = protos.front().bytes;
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A cut behind a field of the module or of what wraps it may be sound.
    (void)parse_hlo_proto(std::string_view(bytes).substr(0, size));
  }
  EXPECT_FALSE(
      parse_hlo_proto(std::string_view(bytes).substr(0, bytes.size() / 2))
          .has_value());
}

TEST(HloProto, ReadHloFileTellsTextFromProto) {
  const std::string path = ::testing::TempDir() + "/hlo_proto_test_file." +
                           std::to_string(::getpid());
  const std::string proto =
      module_of({instruction("x", "parameter", 7, shape("\2")),
                 instruction("y", "negate", 8, shape("\2"), "\7")},
                8);
  ASSERT_TRUE(write_file_atomically(path, proto).has_value());
  const auto from_proto = read_hlo_file(path);
  ASSERT_TRUE(from_proto.has_value()) << from_proto.error().message;
  ASSERT_TRUE(write_file_atomically(path, print_hlo(*from_proto)).has_value());
  const auto from_text = read_hlo_file(path);
  ASSERT_TRUE(from_text.has_value()) << from_text.error().message;
  EXPECT_TRUE(*from_text == *from_proto);
  fs::remove(path);
}

}  // namespace
}  // namespace reprise
