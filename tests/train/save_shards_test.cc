// Shards that ranks, threads here, save at a time.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/tensor_type.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/checkpoint.h"
#include "runtime/session.h"
#include "runtime/values.h"
#include "tests/support/thread_ranks.h"
#include "train/rank_checkpoints.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

using Outcomes = std::vector<std::optional<Result<std::vector<uint64_t>>>>;

// Three ranks save a param of 30 elements, of which `bad` has one that is no number.
Outcomes SaveOnThree(const std::string& name, std::optional<int> bad) {
  const char* const root = std::getenv("TEST_TMPDIR");
  const std::string path =
      StrCat(root == nullptr ? "/tmp" : root, "/", name, ".safetensors");
  fs::remove_all(path + ".shards");
  GraphBuilder g("step");
  g.Param("w", DType::kF32, {30}, Init::Ones());
  const Graph whole = *g.Finish();
  Outcomes outcomes(3);
  testing::ThreadRanks(3).Run([&](Collectives& rank) {
    const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});
    auto session = Session::Create(
        {{"step", whole, *PlanMemory(whole, {.device = cpu->Needs()})}}, *cpu);
    session->Initialize(1);
    if (rank.rank() == bad) {
      std::vector<float> w(30, 1.0f);
      w[29] = w[9] = w[19] = std::numeric_limits<float>::infinity();
      CHECK(session->front().Write("w", w).ok());
    }
    const RankValues values{
        .whole = whole, .rank = rank.rank(), .ranks = rank.ranks()};
    CHECK(PrepareShards(path, values.rank, 17).ok());
    outcomes[static_cast<size_t>(rank.rank())] =
        SaveShards(session->front(), values, path, 4, {}, &rank);
  });
  return outcomes;
}

TEST_CASE("every rank gets the digests of all") {
  const Outcomes outcomes = SaveOnThree("good", {});
  for (const auto& outcome : outcomes) {
    REQUIRE_MESSAGE(outcome->ok(), outcome->error().message);
    // The same ten ones each.
    CHECK(**outcome == std::vector<uint64_t>(3, (**outcomes[0])[0]));
  }
}

TEST_CASE("where one rank cannot save, all know why") {
  for (const int bad : {0, 2}) {
    for (const auto& outcome : SaveOnThree(StrCat("bad", bad), bad)) {
      REQUIRE_FALSE(outcome->ok());
      CHECK(outcome->error().code == ErrorCode::kNotFinite);
      CHECK(outcome->error().message.starts_with(
          StrCat("[ranks] rank ", bad, ": [checkpoint] the param \"w\" of ",
                 "program \"step\" is inf at element ", 9 + 10 * bad)));
    }
  }
}

}  // namespace
}  // namespace stowage
