// Checkpoints of several ranks: whatever number saved it, and whatever they split, any
// other number takes the same values from it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "math/small_floats.h"
#include "planner/plan_memory.h"
#include "runtime/checkpoint.h"
#include "runtime/session.h"
#include "runtime/values.h"
#include "runtime/weights.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

using testing::EmptyFolder;
using testing::ReadAll;

std::vector<std::string> Shards(const std::string& path) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(path + ".shards")) {
    const std::string shard = entry.path().string();
    if (shard.ends_with(".safetensors")) paths.push_back(shard);
  }
  std::ranges::sort(paths);
  return paths;
}

std::string OwnName(std::string_view name) { return StrCat("own:", name); }

struct Leaf {
  std::string name;
  Role role;
  TensorType type;
};
// One of several parts of 256 KiB, one that no number of ranks divides, one of a single
// element, one of a byte each.
const std::vector<Leaf> kLeaves = {
    {"large", Role::kParam, {DType::kF32, {301, 300}}},
    {"odd", Role::kParam, {DType::kBF16, {7, 11}}},
    {"count", Role::kState, {DType::kI64, {}}},
    {"large.m", Role::kState, {DType::kU8, {301, 300}}},
};

Graph GraphOf(const std::vector<Leaf>& leaves) {
  GraphBuilder g("step");
  for (const Leaf& leaf : leaves) {
    ValueInfo info;
    info.name = leaf.name;
    info.role = leaf.role;
    info.type = leaf.type;
    g.LeafLike(info);
  }
  return *g.Finish();
}

// What a rank keeps: of values whose names are in `split` blocks of whole fours.
std::vector<Leaf> LeavesOfRank(int64_t ranks,
                               const std::vector<std::string>& split) {
  std::vector<Leaf> leaves = kLeaves;
  for (Leaf& leaf : leaves) {
    if (std::ranges::find(split, leaf.name) == split.end()) continue;
    const int64_t each = (leaf.type.shape.num_elements() + ranks - 1) / ranks;
    leaf.name = OwnName(leaf.name);
    leaf.type.shape = Shape({(each + 3) / 4 * 4});
  }
  return leaves;
}

// Memory with these leaves.
class Memory {
 public:
  explicit Memory(const std::vector<Leaf>& leaves)
      : session_(Open(GraphOf(leaves), *cpu_)) {}
  Runner& runner() { return session_.front(); }

  std::string Get(const Leaf& leaf) {
    std::string bytes(static_cast<size_t>(leaf.type.bytes()), '\0');
    const Status read = runner().ReadBytes(
        leaf.name, leaf.type.dtype, std::as_writable_bytes(std::span(bytes)));
    REQUIRE_MESSAGE(read.ok(), read.error().message);
    return bytes;
  }
  void Set(const Leaf& leaf, std::string_view bytes) {
    REQUIRE(runner()
                .WriteBytes(leaf.name, leaf.type.dtype,
                            std::as_bytes(std::span(bytes)))
                .ok());
  }

 private:
  static Session Open(const Graph& graph, Backend& backend) {
    const auto plan = PlanMemory(graph, {.device = backend.Needs()});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    auto session = Session::Create({{"step", graph, *plan}}, backend);
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    return std::move(*session);
  }
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend({.threads = 1});
  Session session_;
};

// Bytes that tell their place, and are finite floats in any type.
std::string Content(const Leaf& leaf, uint32_t salt) {
  std::string bytes(static_cast<size_t>(leaf.type.bytes()), '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>((i * 7 + i / 251 + salt) & 0x3f);
  }
  return bytes;
}

// What rank `rank` has of `whole`, which it keeps as `leaf`: filled up with zeros.
std::string BlockOfContent(const Leaf& leaf, const std::string& whole,
                           int64_t rank) {
  const auto bytes = static_cast<size_t>(leaf.type.bytes());
  if (!leaf.name.starts_with("own:")) return whole;
  const size_t begin =
      std::min(static_cast<size_t>(rank) * bytes, whole.size());
  std::string block = whole.substr(begin, bytes);
  block.resize(bytes);
  return block;
}

// Saves by so many ranks, with an index of this number.
void SaveAll(const std::string& path, int64_t ranks,
             const std::vector<std::string>& split, int64_t number,
             uint32_t salt) {
  const Graph whole = GraphOf(kLeaves);
  const std::vector<Leaf> leaves = LeavesOfRank(ranks, split);
  std::vector<uint64_t> shards;
  Memory memory(leaves);
  RankValues values{.whole = whole, .ranks = ranks, .own_name = &OwnName};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    REQUIRE(PrepareShards(path, rank, 17).ok());
    for (size_t i = 0; i < leaves.size(); ++i) {
      memory.Set(leaves[i],
                 BlockOfContent(leaves[i], Content(kLeaves[i], salt), rank));
    }
    values.rank = rank;
    const auto shard = SaveShard(memory.runner(), values, path, number);
    REQUIRE_MESSAGE(shard.ok(), shard.error().message);
    shards.push_back(*shard);
  }
  const auto file = OutputFile::Claim(path);
  REQUIRE(file.ok());
  const Status saved = SaveShardIndex(memory.runner(), values, shards, *file,
                                      path, number, {{"seed", "4"}});
  REQUIRE_MESSAGE(saved.ok(), saved.error().message);
}

const std::vector<std::vector<std::string>> kSplits = {
    {}, {"large.m"}, {"large", "odd", "count", "large.m"}};

TEST_CASE("what any number of ranks saved, any other takes, split or not") {
  const std::string path = EmptyFolder("any") + "/run.safetensors";
  const Graph whole = GraphOf(kLeaves);
  int64_t number = 0;
  for (const int64_t ranks : {1, 2, 3, 13}) {
    for (const auto& saved_split : kSplits) {
      ++number;
      SaveAll(path, ranks, saved_split, number, 1);
      const auto info = ReadCheckpointInfo(path);
      REQUIRE_MESSAGE(info.ok(), info.error().message);
      CHECK(info->step == number);
      CHECK(info->shards == ranks);
      CHECK(*info->Find("seed") == "4");
      CHECK(CheckCheckpoint(path).ok());
      for (const int64_t to : {1, 2, 4}) {
        for (const auto& split : kSplits) {
          const std::vector<Leaf> leaves = LeavesOfRank(to, split);
          for (int64_t rank = 0; rank < to; ++rank) {
            CAPTURE(ranks);
            CAPTURE(to);
            CAPTURE(rank);
            Memory memory(leaves);
            for (const Leaf& leaf : leaves) {
              memory.Set(
                  leaf,
                  std::string(static_cast<size_t>(leaf.type.bytes()), 'x'));
            }
            const auto loaded = LoadCheckpoint(memory.runner(),
                                               {.whole = whole,
                                                .rank = rank,
                                                .ranks = to,
                                                .own_name = &OwnName},
                                               path);
            REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
            CHECK(*loaded == number);
            for (size_t i = 0; i < leaves.size(); ++i) {
              CHECK(memory.Get(leaves[i]) ==
                    BlockOfContent(leaves[i], Content(kLeaves[i], 1), rank));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a whole file gives each rank its block") {
  const std::string path = EmptyFolder("whole") + "/run.safetensors";
  const Graph whole = GraphOf(kLeaves);
  Memory one(kLeaves);
  for (const Leaf& leaf : kLeaves) one.Set(leaf, Content(leaf, 2));
  REQUIRE(SaveCheckpoint(one.runner(), path, 8).ok());
  const std::vector<Leaf> leaves = LeavesOfRank(3, kSplits.back());
  for (int64_t rank = 0; rank < 3; ++rank) {
    Memory memory(leaves);
    const auto loaded = LoadCheckpoint(
        memory.runner(),
        {.whole = whole, .rank = rank, .ranks = 3, .own_name = &OwnName}, path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
    CHECK(*loaded == 8);
    for (size_t i = 0; i < leaves.size(); ++i) {
      CHECK(memory.Get(leaves[i]) ==
            BlockOfContent(leaves[i], Content(kLeaves[i], 2), rank));
    }
  }
}

TEST_CASE("shards hold each element once, and a rank reads its own alone") {
  const std::string path = EmptyFolder("own") + "/run.safetensors";
  SaveAll(path, 4, kSplits.back(), 5, 3);
  const std::vector<std::string> shards = Shards(path);
  REQUIRE(shards.size() == 4);
  CHECK(fs::path(shards[2]).filename().string().starts_with("5.2-of-4."));
  Bytes data = 0, total = 0;
  for (const Leaf& leaf : kLeaves) total += leaf.type.bytes();
  for (const std::string& shard : shards) {
    const std::string bytes = ReadAll(shard);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    data += static_cast<Bytes>(bytes.size() - 8 - header);
  }
  CHECK(data == total);
  const Graph whole = GraphOf(kLeaves);
  const std::vector<Leaf> leaves = LeavesOfRank(4, kSplits.back());
  Memory memory(leaves);
  for (const size_t other : {0, 1, 3}) fs::remove(shards[other]);
  const auto loaded = LoadCheckpoint(
      memory.runner(),
      {.whole = whole, .rank = 2, .ranks = 4, .own_name = &OwnName}, path);
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  const auto all = CheckCheckpoint(path);
  REQUIRE_FALSE(all.ok());
  CHECK(all.error().code == ErrorCode::kNotFound);
  CHECK(all.error().message.find("0-of-4") != std::string::npos);
  CHECK(all.error().message.find("it is a shard of \"" + path) !=
        std::string::npos);
}

// Loads into values that are there, which an error leaves as they were.
std::string ErrorOfLoading(const std::string& path) {
  Memory memory(kLeaves);
  for (const Leaf& leaf : kLeaves) memory.Set(leaf, Content(leaf, 9));
  const auto loaded = LoadCheckpoint(memory.runner(), path);
  for (const Leaf& leaf : kLeaves) {
    if (!loaded.ok()) CHECK(memory.Get(leaf) == Content(leaf, 9));
  }
  return loaded.ok() ? "" : loaded.error().message;
}

TEST_CASE("a flipped bit anywhere is told, and changes nothing") {
  const std::string path = EmptyFolder("flips") + "/run.safetensors";
  SaveAll(path, 3, kSplits[1], 5, 1);
  CHECK(ErrorOfLoading(path).empty());
  std::vector<std::string> files = Shards(path);
  files.push_back(path);
  uint32_t random = 1;
  for (const std::string& file : files) {
    const std::string good = ReadAll(file);
    for (int i = 0; i < 60; ++i) {
      random = random * 1664525 + 1013904223;
      // Half of them in the header.
      const size_t at =
          (random >> 4) %
          (i % 2 == 0 ? std::min<size_t>(good.size(), 900) : good.size());
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (random >> 29)));
      std::ofstream(file, std::ios::binary) << bad;
      CAPTURE(file);
      CAPTURE(at);
      // Blanks behind a header's JSON say nothing.
      if (ErrorOfLoading(path).empty()) CHECK(good[at] == ' ');
    }
    std::ofstream(file, std::ios::binary) << good.substr(0, good.size() - 1);
    CHECK_FALSE(ErrorOfLoading(path).empty());
    std::ofstream(file, std::ios::binary) << good;
  }
  CHECK(ErrorOfLoading(path).empty());
}

TEST_CASE("an unfinished save leaves the one before") {
  const std::string path = EmptyFolder("unfinished") + "/run.safetensors";
  SaveAll(path, 2, {}, 5, 1);
  const std::vector<std::string> before = Shards(path);
  // Of the same step, and other values: ends before there is an index.
  const Graph whole = GraphOf(kLeaves);
  Memory memory(kLeaves);
  for (const Leaf& leaf : kLeaves) memory.Set(leaf, Content(leaf, 7));
  RankValues values{.whole = whole, .ranks = 2};
  const auto shard = SaveShard(memory.runner(), values, path, 5);
  REQUIRE(shard.ok());
  CHECK(Shards(path).size() == 3);
  CHECK(ErrorOfLoading(path).empty());
  CHECK(*SaveShard(memory.runner(), values, path, 5) == *shard);
  CHECK(Shards(path).size() == 3);
  // Of rank 1 nothing is to be seen.
  const auto file = OutputFile::Claim(path);
  const std::vector<uint64_t> shards = {*shard, 77};
  const Status index =
      SaveShardIndex(memory.runner(), values, shards, *file, path, 5);
  REQUIRE_FALSE(index.ok());
  CHECK(index.error().code == ErrorCode::kIo);
  CHECK(index.error().message.find(
            "the shard of rank 1 of 2, "
            "\"5.1-of-2.000000000000004d.safetensors\"") != std::string::npos);
  CHECK(ErrorOfLoading(path).empty());
  CHECK(RemoveUnusedShards(path).ok());
  CHECK(Shards(path) == before);
}

TEST_CASE("a damaged shard is whole again when it is saved again") {
  const std::string path = EmptyFolder("heals") + "/run.safetensors";
  SaveAll(path, 2, {}, 5, 1);
  std::string bad = ReadAll(Shards(path)[1]);
  bad.back() = static_cast<char>(bad.back() ^ 1);
  std::ofstream(Shards(path)[1], std::ios::binary) << bad;
  CHECK_FALSE(ErrorOfLoading(path).empty());
  SaveAll(path, 2, {}, 5, 1);
  CHECK(ErrorOfLoading(path).empty());
}

std::set<std::string> Names(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST_CASE("shards stay that any index beside tells of, whatever it is called") {
  const std::string folder = EmptyFolder("beside");
  for (const std::string& name :
       std::vector<std::string>{"run.safetensors", "run", ".hidden"}) {
    const std::string path = folder + "/" + name;
    SaveAll(path, 2, {}, 5, 1);
    fs::copy_file(path, folder + "/an input of " + name);
    SaveAll(path, 2, {}, 6, 2);
    fs::rename(path, folder + "/renamed " + name);
    SaveAll(path, 2, {}, 7, 3);
    SaveAll(path, 2, {}, 8, 4);
    // Others' files, and what a killed rank leaves.
    const std::string shards = path + ".shards";
    for (const char* other : {"5.my-of-notes.safetensors", "mine", ".mine",
                              ".7.x.lock", ".7.0-of-2.x.123-0.stowage-part"}) {
      std::ofstream(shards + "/" + other) << "x";
    }
    fs::create_directory(shards + "/7.0-of-2.0123456789abcdef.safetensors");
    CHECK(RemoveUnusedShards(path).ok());
    const auto left = Names(shards);
    CHECK(left.size() == 3 * 2 + 4);
    CHECK(left.contains("5.my-of-notes.safetensors"));
    CHECK(left.contains("mine"));
    CHECK(left.contains(".mine"));
    for (const std::string& index :
         {"an input of " + name, "renamed " + name, name}) {
      CAPTURE(index);
      CHECK(CheckCheckpoint(folder + "/" + index).ok());
    }
  }
  // What may be an index keeps all.
  const std::string path = folder + "/run.safetensors";
  const size_t before = Names(path + ".shards").size();
  std::string index = ReadAll(path);
  index[index.size() / 2] = static_cast<char>(index[index.size() / 2] ^ 1);
  std::ofstream(folder + "/damaged", std::ios::binary) << index;
  fs::remove(path);
  const Status kept = RemoveUnusedShards(path);
  REQUIRE(!kept.ok());
  CHECK(kept.error().message.find(folder + "/damaged") != std::string::npos);
  CHECK(Names(path + ".shards").size() == before);
  fs::remove(folder + "/damaged");
  CHECK(RemoveUnusedShards(path).ok());
  CHECK(Names(path + ".shards").size() == before - 2);
}

TEST_CASE("links to a file, and to the folder of its shards, are followed") {
  const std::string folder = EmptyFolder("links"), disk = EmptyFolder("disk");
  const std::string path = folder + "/run.safetensors";
  fs::create_symlink(disk + "/far.safetensors", path);  // which is not there
  SaveAll(path, 2, {}, 5, 1);
  CHECK(Shards(disk + "/far.safetensors").size() == 2);
  CHECK(ErrorOfLoading(path).empty());
  CHECK(ErrorOfLoading(disk + "/far.safetensors").empty());
  CHECK(RemoveUnusedShards(path).ok());
  CHECK(ErrorOfLoading(path).empty());
  // The folder is a link.
  const std::string other = folder + "/other.safetensors";
  fs::create_directory(disk + "/big");
  fs::create_symlink(disk + "/big", other + ".shards");
  SaveAll(other, 2, {}, 5, 1);
  CHECK(RemoveUnusedShards(other).ok());
  CHECK(ErrorOfLoading(other).empty());
  CHECK(fs::is_symlink(other + ".shards"));
}

TEST_CASE("ranks show each other that they write to one folder") {
  const std::string path = EmptyFolder("signs") + "/run.safetensors";
  REQUIRE(PrepareShards(path, 0, 17).ok());
  const Status alone = CheckSigns(path, 2, 17);
  REQUIRE_FALSE(alone.ok());
  CHECK(alone.error().code == ErrorCode::kIo);
  CHECK(alone.error().message.find("what rank 1 of 2 writes to") !=
        std::string::npos);
  REQUIRE(PrepareShards(path, 1, 18).ok());  // of another run
  CHECK_FALSE(CheckSigns(path, 2, 17).ok());
  REQUIRE(PrepareShards(path, 1, 17).ok());
  CHECK(CheckSigns(path, 2, 17).ok());
  RemoveSign(path, 1, 17);
  CHECK_FALSE(CheckSigns(path, 2, 17).ok());
}

TEST_CASE("what cannot be saved in shards is an error") {
  const std::string path = EmptyFolder("refused") + "/run.safetensors";
  const Graph whole = GraphOf(kLeaves);
  const std::vector<Leaf> leaves = LeavesOfRank(2, {"large"});
  Memory memory(leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    memory.Set(leaves[i], BlockOfContent(leaves[i], Content(kLeaves[i], 7), 1));
  }
  RankValues values{
      .whole = whole, .rank = 1, .ranks = 2, .own_name = &OwnName};
  const auto no_folder = SaveShard(memory.runner(), values, path, 5);
  REQUIRE_FALSE(no_folder.ok());
  CHECK(no_folder.error().code == ErrorCode::kIo);
  REQUIRE(PrepareShards(path, 1, 17).ok());
  const auto negative = SaveShard(memory.runner(), values, path, -1);
  REQUIRE_FALSE(negative.ok());
  CHECK(negative.error().message.find("cannot be of step -1") !=
        std::string::npos);
  std::string bytes = memory.Get(leaves[0]);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + 4 * 6, &nan, 4);
  memory.Set(leaves[0], bytes);
  const auto not_finite = SaveShard(memory.runner(), values, path, 5);
  REQUIRE_FALSE(not_finite.ok());
  CHECK(not_finite.error().code == ErrorCode::kNotFinite);
  // The seventh of the second block of 45,152.
  CHECK(not_finite.error().message.find("is nan at element 45158 of 90300") !=
        std::string::npos);
  CHECK(Shards(path).empty());
  CHECK_FALSE(PrepareShards("/nonexistent/run.safetensors", 0, 17).ok());
}

TEST_CASE("weights of shards are taken by name, as those of one file") {
  const std::string path = EmptyFolder("weights") + "/run.safetensors";
  SaveAll(path, 3, kSplits.back(), 5, 1);
  GraphBuilder g("evaluation");
  const Value large = g.Param("large", DType::kF32, {301, 300});
  const Value odd = g.Param("ours.odd", DType::kF32, {7, 11});
  g.Output("sum", Add(ReduceSum(large), ReduceSum(odd)));
  const Graph graph = *g.Finish();
  const auto cpu = MakeCpuBackend({.threads = 1});
  auto session = Session::Create(
      {{"evaluate", graph, *PlanMemory(graph, {.device = cpu->Needs()})}},
      *cpu);
  REQUIRE(session.ok());
  Runner& runner = session->front();
  const WeightRules rules{.rename = {{"odd", "ours.odd"}}};
  const auto loaded = LoadWeights(runner, path, rules);
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(loaded->loaded == 2);  // the states are left aside
  std::string bytes(kLeaves[0].type.bytes(), '\0');
  REQUIRE(runner
              .ReadBytes("large", DType::kF32,
                         std::as_writable_bytes(std::span(bytes)))
              .ok());
  CHECK(bytes == Content(kLeaves[0], 1));
  std::vector<float> cast(77);
  REQUIRE(runner.Read("ours.odd", &cast).ok());
  uint16_t last = 0;
  std::memcpy(&last, Content(kLeaves[1], 1).data() + 2 * 76, 2);
  CHECK(cast[76] == math::BFloat16ToFloat(last));
  // What is damaged is not taken.
  std::string bad = ReadAll(Shards(path)[1]);
  bad[bad.size() - 100000] = static_cast<char>(bad[bad.size() - 100000] ^ 1);
  std::ofstream(Shards(path)[1], std::ios::binary) << bad;
  const auto refused = LoadWeights(runner, path, rules);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("is damaged") != std::string::npos);
}

}  // namespace
}  // namespace stowage
