#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/checkpoint.h"
#include "runtime/session.h"
#include "runtime/values.h"
#include "tests/support/files.h"
#include "train/run_checkpoints.h"
#include "train/state_backup.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

using testing::EmptyFolder;

std::set<std::string> Names(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".lock")) names.insert(name);
  }
  return names;
}

// One param of two elements, and a state beside.
class Model {
 public:
  Model() : session_(Open(*cpu_)) { session_.Initialize(1); }
  Runner& runner() { return session_.front(); }
  void Set(const std::vector<float>& w) {
    REQUIRE(runner().Write("w", w).ok());
  }
  std::vector<float> Get(const char* name) {
    std::vector<float> values(2);
    REQUIRE(runner().Read(name, &values).ok());
    return values;
  }

 private:
  static Session Open(Backend& backend) {
    GraphBuilder g("two");
    const Value w = g.Param("w", DType::kF32, {2}, Init::Ones());
    const Value s = g.State("s", DType::kF32, {2});
    g.Output("loss", ReduceSum(Add(w, s)));
    const Graph graph = *g.Finish();
    auto session = Session::Create(
        {{"p", graph, *PlanMemory(graph, {.device = backend.Needs()})}},
        backend);
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    return std::move(*session);
  }
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend({.threads = 1});
  Session session_;
};

CheckpointSeries::WriteCheckpoint Whole(Model& model, int64_t step) {
  return [&model, step](const OutputFile& file, const RunNotes& notes) {
    return SaveCheckpoint(model.runner(), file, step, notes);
  };
}

Status Save(CheckpointSeries& series, Model& model, int64_t step) {
  return series.Save(step, {}, Whole(model, step));
}

Result<bool> SaveIfBest(CheckpointSeries& series, Model& model, int64_t step,
                        double loss) {
  return series.SaveIfBest(loss, {}, Whole(model, step));
}

int64_t StepOf(const std::string& path) {
  const auto info = ReadCheckpointInfo(path);
  REQUIRE_MESSAGE(info.ok(), info.error().message);
  return info->step;
}

TEST_CASE("the newest is at its path, the last few and the best beside it") {
  const std::string folder = EmptyFolder("series");
  const std::string path = folder + "/m.ck";
  CHECK(BestPath(path) == folder + "/m.best.ck");
  CHECK(StepPath(path, 7) == folder + "/m.step-7.ck");
  CHECK(BestPath("m") == "m.best");
  // Another run's, which stays.
  std::ofstream(folder + "/m.step-1.ck") << "other";
  Model model;
  auto series =
      CheckpointSeries::Claim(path, {.keep_last = 2, .keep_best = true});
  REQUIRE_MESSAGE(series.ok(), series.error().message);
  CHECK_FALSE(series->last_step().has_value());
  const double losses[] = {3, 1, 2, std::nan("")};
  for (int64_t i = 0; i < 4; ++i) {
    model.Set({static_cast<float>(i), 0});
    REQUIRE(Save(*series, model, 10 * (i + 1)).ok());
    CHECK(StepOf(path) == 10 * (i + 1));
    CHECK(*SaveIfBest(*series, model, 10 * (i + 1), losses[i]) == (i < 2));
  }
  CHECK(series->last_step() == 40);
  CHECK(series->best_loss() == 1);
  CHECK(Names(folder) == std::set<std::string>{"m.best.ck", "m.ck",
                                               "m.step-1.ck", "m.step-30.ck",
                                               "m.step-40.ck"});
  CHECK(StepOf(folder + "/m.best.ck") == 20);
  CHECK(StepOf(folder + "/m.step-30.ck") == 30);
  CHECK(*ReadCheckpointInfo(folder + "/m.best.ck")->Find("held_out_loss") ==
        "1");
  // The same step once more counts once.
  REQUIRE(Save(*series, model, 40).ok());
  CHECK(Names(folder).contains("m.step-30.ck"));
}

TEST_CASE("what a killed run left between a link and its name goes") {
  const std::string folder = EmptyFolder("links");
  for (const char* const name :
       {"m.step-6.ck.stowage-link", "m.step-six.ck.stowage-link",
        "other.step-6.ck.stowage-link"}) {
    std::ofstream(folder + "/" + name) << "left";
  }
  REQUIRE(CheckpointSeries::Claim(folder + "/m.ck", {.keep_last = 2}).ok());
  CHECK(Names(folder) == std::set<std::string>{"m.step-six.ck.stowage-link",
                                               "other.step-6.ck.stowage-link"});
}

TEST_CASE("a resumed series keeps the best of the run before") {
  const std::string path = EmptyFolder("resumed") + "/m.ck";
  Model model;
  {
    auto first = CheckpointSeries::Claim(path, {.keep_best = true});
    REQUIRE(first->Continue().ok());  // nothing is there yet
    CHECK(*SaveIfBest(*first, model, 1, 0.1));
  }
  {
    auto anew = CheckpointSeries::Claim(path, {.keep_best = true});
    CHECK_FALSE(anew->best_loss().has_value());
    REQUIRE(anew->Continue().ok());
    CHECK(anew->best_loss() == 0.1);
    CHECK_FALSE(*SaveIfBest(*anew, model, 2, 0.5));
    CHECK(*SaveIfBest(*anew, model, 3, 0.05));
  }
  std::ofstream(BestPath(path)) << "something else";
  auto blocked = CheckpointSeries::Claim(path, {.keep_best = true});
  const Result<std::string> status = blocked->Continue();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message.find("move it away") != std::string::npos);
}

TEST_CASE("a resumed series counts the best of the same model and data alone") {
  const std::string path = EmptyFolder("others") + "/m.ck";
  Model model;
  {
    auto first = CheckpointSeries::Claim(path, {.keep_best = true});
    CHECK(*first->SaveIfBest(0.1, {{"model", "mlp"}, {"seed", "1"}},
                             Whole(model, 1)));
  }
  {
    auto same = CheckpointSeries::Claim(path, {.keep_best = true});
    const Result<std::string> told =
        same->Continue({{"model", "mlp"}, {"data", "d.npz"}});
    REQUIRE(told.ok());
    CHECK(told->empty());
    CHECK(same->best_loss() == 0.1);
  }
  auto other = CheckpointSeries::Claim(path, {.keep_best = true});
  const Result<std::string> told = other->Continue({{"model", "resnet18"}});
  REQUIRE(told.ok());
  CHECK(told->find("is of another model, mlp in place of resnet18") !=
        std::string::npos);
  CHECK_FALSE(other->best_loss().has_value());
  CHECK(*SaveIfBest(*other, model, 2, 0.5));
}

TEST_CASE("what is not finite leaves the whole series as it was") {
  const std::string folder = EmptyFolder("finite");
  Model model;
  auto series = CheckpointSeries::Claim(folder + "/m.ck", {.keep_last = 2});
  REQUIRE(Save(*series, model, 1).ok());
  model.Set({1, std::numeric_limits<float>::infinity()});
  const Status status = Save(*series, model, 2);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kNotFinite);
  CHECK(series->last_step() == 1);
  CHECK(Names(folder) == std::set<std::string>{"m.ck", "m.step-1.ck"});
  CHECK_FALSE(CheckpointSeries::Claim(folder + "/x", {.keep_last = 0}).ok());
}

TEST_CASE("shards go when no checkpoint of the series has them any more") {
  const std::string folder = EmptyFolder("shards");
  const std::string path = folder + "/m.ck";
  const std::string shards = path + ".shards";
  Model model;
  const auto write = [&](int64_t step) {
    return [&model, &path, step](const OutputFile& file,
                                 const RunNotes& notes) -> Status {
      const RankValues values{.whole = model.runner().graph()};
      STOWAGE_ASSIGN_OR_RETURN(const uint64_t shard,
                               SaveShard(model.runner(), values, path, step));
      return SaveShardIndex(model.runner(), values, {&shard, 1}, file, path,
                            step, notes);
    };
  };
  REQUIRE(PrepareShards(path, 0, 17).ok());
  RemoveSign(path, 0, 17);
  auto series =
      CheckpointSeries::Claim(path, {.keep_last = 2, .keep_best = true});
  const double losses[] = {3, 1, 2, 4, 5};
  const auto steps = [&] {
    std::set<int64_t> steps;
    for (const std::string& name : Names(shards)) {
      steps.insert(std::stoll(name));
    }
    return steps;
  };
  for (int64_t i = 0; i < 5; ++i) {
    model.Set({static_cast<float>(i), 0});
    REQUIRE(series->Save(i + 1, {}, write(i + 1)).ok());
    REQUIRE(series->SaveIfBest(losses[i], {}, write(i + 1)).ok());
    CHECK(RemoveUnusedShards(path).ok());
  }
  // The last two, and the best.
  CHECK(steps() == std::set<int64_t>{2, 4, 5});
  for (const char* name : {"/m.ck", "/m.best.ck", "/m.step-4.ck"}) {
    CHECK(CheckCheckpoint(folder + name).ok());
  }
  // One without an index, and of those that have one the best's.
  model.Set({7, 0});
  const RankValues values{.whole = model.runner().graph()};
  REQUIRE(SaveShard(model.runner(), values, path, 6).ok());
  CHECK(steps() == std::set<int64_t>{2, 4, 5, 6});
  fs::remove(folder + "/m.best.ck");
  CHECK(RemoveUnusedShards(path).ok());
  CHECK(steps() == std::set<int64_t>{4, 5});
  // Whole ones have none.
  for (int64_t i = 6; i < 8; ++i) REQUIRE(Save(*series, model, i).ok());
  CHECK(RemoveUnusedShards(path).ok());
  CHECK_FALSE(fs::exists(shards));
}

TEST_CASE("a guard undoes what is not finite and keeps what is") {
  const float inf = std::numeric_limits<float>::infinity();
  Model model;
  model.Set({1, 2});
  auto guard = FiniteGuard::Make(model.runner());
  REQUIRE(guard.ok());
  model.Set({3, 4});
  CHECK(*guard->Settle(true));
  CHECK(model.Get("w") == std::vector<float>{3, 4});
  model.Set({5, inf});  // though the loss was a number
  CHECK_FALSE(*guard->Settle(true));
  CHECK(model.Get("w") == std::vector<float>{3, 4});
  model.Set({6, 7});
  REQUIRE(model.runner().Write("s", std::vector<float>{8, 9}).ok());
  CHECK_FALSE(*guard->Settle(false));
  CHECK(model.Get("w") == std::vector<float>{3, 4});
  CHECK(model.Get("s") == std::vector<float>{0, 0});
}

}  // namespace
}  // namespace stowage
