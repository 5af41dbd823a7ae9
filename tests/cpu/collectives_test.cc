// Collective ops on threads that are ranks, against sums and blocks worked out plainly.

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/text.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/support/elements.h"
#include "tests/support/thread_ranks.h"

namespace stowage {
namespace {

// Ten elements: for four ranks, blocks of 3, 3, 3 and 1.
constexpr int64_t kElements = 10;

// Rank r's element i; in f32, and in 16 bits, the sum depends on the order.
double ElementOf(DType dtype, int rank, int64_t i) {
  if (!IsFloat(dtype)) return 100.0 * rank + static_cast<double>(i);
  const double large = rank == 0 ? 1000 : rank == 1 ? -1000 : 1;
  return large + 0.25 * static_cast<double>(i) + 1.0 / 128;
}

double Rounded(DType dtype, double x) {
  std::byte bytes[8];
  EncodeElement(dtype, x, bytes);
  return DecodeElement(dtype, bytes);
}

double SumOf(DType dtype, int ranks, int64_t i) {
  double sum = Rounded(dtype, ElementOf(dtype, 0, i));
  for (int r = 1; r < ranks; ++r) {
    sum = Rounded(dtype, sum + Rounded(dtype, ElementOf(dtype, r, i)));
  }
  return sum;
}

// All five ops of x, and of a param that starts with zeros.
Graph Ops(DType dtype, int64_t ranks, int64_t granule = 1) {
  GraphBuilder g("ops");
  const Value x = g.Input("x", dtype, {2, 5});
  const Value w = g.Param("w", dtype, {2, 5}, Init::Zeros());
  g.Output("sum", AllReduce(x, ranks));
  const Value block = ReduceScatter(x, ranks, granule);
  g.Output("block", block);
  g.Output("gathered", AllGather(block, ranks, {5, 2}));
  const Value own = OwnBlock(x, ranks, granule);
  g.Output("own", own);
  AllGatherUpdate(w, own, ranks);
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

using Values = std::map<std::string, std::vector<double>>;

Values RunRank(const Graph& graph, Collectives* rank) {
  const DType dtype = graph.value(*graph.Find("x")).type.dtype;
  const auto width = static_cast<size_t>(SizeOf(dtype));
  const auto cpu = MakeCpuBackend({.threads = 1, .collectives = rank});
  Result<Plan> plan = PlanMemory(graph, {.device = cpu->Needs()});
  REQUIRE(plan.ok());
  Result<Session> session = Session::Create(
      {{"ops", graph, *std::move(plan)}}, *cpu, {.arena = {}, .poison = true});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(1);
  Runner& ops = session->front();
  std::vector<std::byte> x(kElements * width);
  for (size_t i = 0; i < kElements; ++i) {
    EncodeElement(dtype, ElementOf(dtype, rank->rank(), int64_t(i)),
                  &x[i * width]);
  }
  REQUIRE(ops.WriteBytes("x", dtype, x).ok());
  const StepCode code = ops.Step();
  REQUIRE_MESSAGE(code == StepCode::kOk, ops.Explain(code).message);
  Values values;
  for (const std::string name : {"sum", "block", "gathered", "own", "w"}) {
    const TensorType& type = graph.value(*graph.Find(name)).type;
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    REQUIRE(ops.ReadBytes(name, dtype, bytes).ok());
    for (size_t i = 0; i < bytes.size(); i += width) {
      values[name].push_back(DecodeElement(dtype, &bytes[i]));
    }
  }
  return values;
}

// Element `i` of rank `rank`'s block; beyond the end of all `elements` it is zero.
template <typename Element>
std::vector<double> BlockOf(int rank, int64_t size, const Element& element) {
  std::vector<double> block;
  for (int64_t i = rank * size; i < (rank + 1) * size; ++i) {
    block.push_back(i < kElements ? element(i) : 0);
  }
  return block;
}

// Ranks, the granule of their blocks, and the elements of a block.
struct Split {
  int ranks;
  int64_t granule, block;
};
constexpr Split kSplits[] = {{2, 1, 5}, {3, 1, 4}, {4, 1, 3},  {12, 1, 1},
                             {2, 4, 8}, {3, 5, 5}, {12, 4, 4}, {2, 16, 16}};

TEST_CASE("collectives add in rank order and split into flat blocks") {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                            DType::kI32, DType::kI64}) {
    for (const Split& split : kSplits) {
      const int ranks = split.ranks;
      const int64_t granule = split.granule, block = split.block;
      CAPTURE(DTypeName(dtype));
      CAPTURE(ranks);
      CAPTURE(granule);
      const Graph graph = Ops(dtype, ranks, granule);
      std::vector<Values> values(static_cast<size_t>(ranks));
      testing::ThreadRanks threads(ranks);
      threads.Run([&](Collectives& rank) {
        values[static_cast<size_t>(rank.rank())] = RunRank(graph, &rank);
      });
      std::vector<double> sums;
      for (int64_t i = 0; i < kElements; ++i) {
        sums.push_back(SumOf(dtype, ranks, i));
      }
      const auto own = [&](int rank) {
        return BlockOf(rank, block, [&](int64_t i) {
          return Rounded(dtype, ElementOf(dtype, rank, i));
        });
      };
      std::vector<double> owns;
      for (int r = 0; r < ranks; ++r) {
        const std::vector<double> each = own(r);
        owns.insert(owns.end(), each.begin(), each.end());
      }
      owns.resize(kElements);
      for (int r = 0; r < ranks; ++r) {
        CAPTURE(r);
        const Values& of_rank = values[static_cast<size_t>(r)];
        CHECK(of_rank.at("sum") == sums);
        CHECK(of_rank.at("gathered") == sums);
        CHECK(of_rank.at("block") == BlockOf(r, block, [&](int64_t i) {
                return sums[static_cast<size_t>(i)];
              }));
        CHECK(of_rank.at("own") == own(r));
        CHECK(of_rank.at("w") == owns);
      }
      CHECK(threads.sent_bytes() == WireBytes(graph));
    }
  }
}

TEST_CASE("without what joins ranks, one rank is alone, and more are refused") {
  const auto bind = [](const Graph& graph, Collectives* ranks) {
    const auto cpu = MakeCpuBackend({.threads = 1, .collectives = ranks});
    Result<Plan> plan = PlanMemory(graph, {.device = cpu->Needs()});
    REQUIRE(plan.ok());
    const auto session =
        Session::Create({{"ops", graph, *std::move(plan)}}, *cpu);
    return session.ok() ? std::string() : session.error().message;
  };
  CHECK(bind(Ops(DType::kF32, 1), nullptr) == "");
  CHECK(bind(Ops(DType::kF32, 4), nullptr) ==
        "[cpu] all_reduce of \"sum\" is among 4 ranks; the backend joins 1; "
        "build the step for as many ranks as there are, and give the backend "
        "what joins them (CpuOptions::collectives)");
  CHECK(WireBytes(Ops(DType::kF32, 1)) == 0);
}

// Of which every call fails.
class LostRank final : public Collectives {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  bool AllReduce(DType, std::span<std::byte>,
                 std::span<std::byte>) noexcept override {
    return false;
  }
  bool ReduceScatter(DType, std::span<const std::byte>, std::span<std::byte>,
                     std::span<std::byte>) noexcept override {
    return false;
  }
  bool AllGather(std::span<const std::byte>,
                 std::span<std::byte>) noexcept override {
    return false;
  }
};

TEST_CASE("a step that loses a rank says at which node") {
  GraphBuilder g("lost");
  const Value x = g.Input("x", DType::kF32, {4});
  g.Output("y", g.Name("y", AllGather(OwnBlock(x, 2), 2, {4})));
  const Graph graph = *g.Finish();
  LostRank lost;
  const auto cpu = MakeCpuBackend({.threads = 1, .collectives = &lost});
  Session session = *Session::Create(
      {{"train", graph, *PlanMemory(graph, {.device = cpu->Needs()})}}, *cpu);
  Runner& train = session.front();
  REQUIRE(train.Write("x", std::vector<float>(4)).ok());
  const StepCode code = train.Step();
  CHECK(code == StepCode::kRankLost);
  CHECK(train.Explain(code).code == ErrorCode::kRankLost);
  CHECK(train.Explain(code).message ==
        "[session] program \"train\" failed at \"y\": a rank of the step was "
        "lost, or the link to it");
}

TEST_CASE("collectives refuse what they cannot split or add") {
  const auto error = [](std::string_view node) {
    const Result<Graph> graph = ParseGraph(StrCat(
        "stowage-ir 1\ngraph \"g\" {\n  x: f32(10) = input\n  b: bool(3) = "
        "input\n  ",
        node, "\n}\n"));
    return graph.ok() ? std::string() : graph.error().message;
  };
  const auto has = [&](std::string_view node, std::string_view message) {
    const std::string text = error(node);
    CHECK_MESSAGE(text.find(message) != std::string::npos, text);
  };
  has("y: f32(10) = all_reduce(x) {ranks=0}",
      "[all_reduce] ranks is 0; expected at least 1");
  has("y: bool(3) = all_reduce(b) {ranks=2}",
      "[all_reduce] x \"b\" is bool(3); expected a float, i32 or i64");
  has("y: bool(2) = reduce_scatter(b) {granule=1, ranks=2}",
      "[reduce_scatter] x \"b\" is bool(3); expected a float, i32 or i64");
  has("y: f32(50) = all_gather(x) {ranks=4, shape=[50]}",
      "[all_gather] block \"x\" is f32(10); expected f32(13) or longer, one of "
      "4 of f32(50)");
  has("y: f32(3) = own_block(x) {granule=0, ranks=4}",
      "[own_block] granule is 0; expected 1 to 1048576");
  has("y: f32(40) = all_gather(x) {ranks=-1, shape=[40]}",
      "[all_gather] ranks is -1; expected at least 1");
}

TEST_CASE("scratch is a chunk of every other rank") {
  CHECK(CollectiveScratch(4000, 1) == 0);
  CHECK(CollectiveScratch(4, 3) == 2 * 64);
  CHECK(CollectiveScratch(40000, 4) == 3 * 10048);
  CHECK(CollectiveScratch(Bytes{1} << 30, 4) == 3 * (256 << 10));
}

}  // namespace
}  // namespace stowage
