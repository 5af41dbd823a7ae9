#include "tools/rank_flags.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/strings.h"
#include "train/step_builder.h"

namespace stowage::tools {
namespace {

Error Fail(std::string_view message) {
  return {ErrorCode::kInvalidArgument, std::string(message)};
}

// By the signalling rate: Ethernet's and InfiniBand's in bits, NVLink's of all links of
// one GPU, one way.
struct KnownLink {
  std::string_view name;
  double bytes_per_second;
};
constexpr std::array<KnownLink, 8> kLinks = {{{"1GbE", 0.125e9},
                                              {"10GbE", 1.25e9},
                                              {"25GbE", 3.125e9},
                                              {"100GbE", 12.5e9},
                                              {"200GbE", 25e9},
                                              {"400GbE", 50e9},
                                              {"NVLink3", 300e9},
                                              {"NVLink4", 450e9}}};

std::string LinkNames() {
  std::string names;
  for (const KnownLink& link : kLinks) names += StrCat(link.name, ", ");
  return names;
}

Result<Link> ParseLink(const std::string& text) {
  for (const KnownLink& link : kLinks) {
    if (text == link.name) return Link{text, link.bytes_per_second};
  }
  std::string_view size = text;
  if (size.ends_with("/s")) {
    size.remove_suffix(2);
    const Result<Bytes> bytes = ParseBytes(size);
    if (bytes.ok() && *bytes > 0) {
      return Link{text, static_cast<double>(*bytes)};
    }
  }
  return Fail(StrCat("[link] there is no link ", Quoted(text), "; expected ",
                     LinkNames(), "or what it carries, such as 2.5GB/s"));
}

}  // namespace

void AddShardOption(Options& options, std::string* shard) {
  options.Group("memory");
  options.Add(
      "--shard", shard,
      "What ranks split, so that each keeps a block: none, states, "
      "gradients (and states), weights (and both), or auto: as little as "
      "fits the budget");
}

void AddRankOptions(Options& options, RankFlags* flags) {
  options.Group("memory");
  options.Add("--ranks", &flags->ranks,
              "Ranks that take the batch together; plans what the first needs");
  options.Limit("--ranks", 1, 1 << 20);
  AddShardOption(options, &flags->shard);
  options.Add("--link", &flags->link,
              StrCat("What joins the ranks, to foretell how long it carries: ",
                     LinkNames(), "or a size a second, such as 2.5GB/s"));
}

Result<std::vector<Sharding>> ReadShard(const std::string& shard) {
  if (shard == "auto") {
    return std::vector<Sharding>(kShardings.begin(), kShardings.end());
  }
  STOWAGE_ASSIGN_OR_RETURN(const Sharding one, ParseSharding(shard));
  return std::vector<Sharding>{one};
}

Result<RankPlan> ReadRankFlags(const RankFlags& flags) {
  RankPlan plan = {.ranks = flags.ranks};
  STOWAGE_ASSIGN_OR_RETURN(plan.shards, ReadShard(flags.shard));
  if (flags.ranks == 1) {
    if (!flags.link.empty()) {
      return Fail("[link] --link is between ranks; give --ranks");
    }
    if (flags.shard != "none" && flags.shard != "auto") {
      return Fail(StrCat("[shard] one rank has nothing to split by --shard ",
                         flags.shard, "; give --ranks"));
    }
    plan.shards = {Sharding::kNone};
    return plan;
  }
  if (!flags.link.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(plan.link, ParseLink(flags.link));
  }
  return plan;
}

void SetRanks(const Ranks& ranks, TrainingSpec* training) {
  training->ranks = ranks;
  if (!training->levers) return;
  const int64_t part =
      PartOfRank(training->batch, ranks.ranks, ranks.rank).count;
  std::vector<int64_t>& pieces = training->levers->pieces;
  // One number is what was asked for.
  if (pieces.size() > 1 && part > 0) pieces = PiecesToTry(part);
}

}  // namespace stowage::tools
