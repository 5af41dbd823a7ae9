// Optimizer updates of many parameters at once, in the emulator.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "gpu/kernel.h"
#include "ir/element_groups.h"
#include "math/optimizer.h"
#include "tests/gpu/grid_runner.h"
#include "tests/gpu/launch_builder.h"

namespace stowage {
namespace {

using testing::GridQueue;
using Launches = std::deque<LaunchBuilder>;

// What of a rule these tests need.
struct Rule {
  OpKind op;
  int states;  // that are updated beside w
  bool has_step;
  bool split = false;
  // Of those whose states have types of their own:
  std::optional<DType> moments = {};  // u8: coded, with scales behind them
  DType rest = DType::kI16;           // of w, where it is split
  bool companded = false;

  bool is_compact() const { return split || moments; }
  bool has_seed() const { return moments == DType::kBF16; }
};
constexpr Rule kRules[] = {
    {OpKind::kSgdUpdate, 0, false},
    {OpKind::kMomentumUpdate, 1, false},
    {OpKind::kAdamWUpdate, 2, true},
    {OpKind::kAdamWSplitUpdate, 3, true, true},
    {OpKind::kNesterovUpdate, 1, false},
    {OpKind::kRmsPropUpdate, 1, false},
    {OpKind::kAdagradUpdate, 1, false},
    {OpKind::kAdamUpdate, 2, true},
    {OpKind::kAdamWSplitUpdate, 3, true, true, DType::kF32, DType::kU8},
    {OpKind::kAdamWBf16Update, 2, true, false, DType::kBF16},
    {OpKind::kAdamWBf16SplitUpdate, 3, true, true, DType::kBF16},
    {OpKind::kAdamWBf16SplitUpdate, 3, true, true, DType::kBF16, DType::kU8},
    {OpKind::kAdamW8BitUpdate, 4, true, false, DType::kU8},
    {OpKind::kAdamW8BitUpdate, 4, true, false, DType::kU8, DType::kI16, true},
    {OpKind::kAdamW8BitSplitUpdate, 5, true, true, DType::kU8},
    {OpKind::kAdamW8BitSplitUpdate, 5, true, true, DType::kU8, DType::kU8,
     true},
    {OpKind::kMomentumBf16Update, 1, true, false, DType::kBF16},
    {OpKind::kMomentumBf16SplitUpdate, 2, true, true, DType::kBF16, DType::kU8},
};

Attrs AttrsOf(const Rule& rule, double decay) {
  if (rule.op == OpKind::kSgdUpdate) return {{"decay", decay}};
  if (rule.op == OpKind::kMomentumUpdate ||
      rule.op == OpKind::kNesterovUpdate) {
    return {{"momentum", 0.9}, {"decay", decay}};
  }
  if (rule.op == OpKind::kRmsPropUpdate) {
    return {{"alpha", 0.9}, {"eps", 1e-8}, {"decay", decay}};
  }
  if (rule.op == OpKind::kAdagradUpdate) {
    return {{"eps", 1e-10}, {"decay", decay}};
  }
  if (rule.op == OpKind::kMomentumBf16Update ||
      rule.op == OpKind::kMomentumBf16SplitUpdate) {
    return {{"momentum", 0.9},
            {"decay", decay},
            {"id", int64_t{11}},
            {"first", int64_t{512}}};
  }
  Attrs attrs = {
      {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"decay", decay}};
  if (rule.has_seed()) {
    attrs.Set("id", int64_t{11});
    attrs.Set("first", int64_t{512});
  }
  if (rule.moments == DType::kU8) {
    attrs.Set("companded", int64_t{rule.companded});
  }
  return attrs;
}

// Operands that all parameters share.
class Scalars {
 public:
  explicit Scalars(double scale = 0.5) : holder_(OpKind::kCopy) {
    holder_.Input(DType::kF32, {}, {0.01});
    holder_.Input(DType::kI64, {}, {3});
    holder_.Input(DType::kF32, {}, {scale});
    holder_.Input(DType::kI64, {}, {98765432101});
  }
  const TensorView& lr() const { return holder_.input(0); }
  const TensorView& step() const { return holder_.input(1); }
  const TensorView& scale() const { return holder_.input(2); }
  const TensorView& seed() const { return holder_.input(3); }

 private:
  LaunchBuilder holder_;
};

std::vector<double> Uniform(int64_t n, double low, double high,
                            std::mt19937& random) {
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> x(static_cast<size_t>(n));
  for (double& element : x) element = draw(random);
  return x;
}

// An update of n elements, the same for the same seed.
void AddLaunch(const Rule& rule, DType dtype, int64_t n, double decay,
               const Scalars& scalars, uint32_t seed, Launches* launches,
               bool scaled = true, size_t shift = 0) {
  std::mt19937 random(seed);
  LaunchBuilder& launch = launches->emplace_back(rule.op, AttrsOf(rule, decay));
  const DType state = rule.moments.value_or(rule.split ? DType::kF32 : dtype);
  const bool is_coded = state == DType::kU8;
  launch.Input(dtype, {n}, Uniform(n, -1, 1, random), shift);
  if (rule.split) {
    std::vector<double> deltas = rule.rest == DType::kI16
                                     ? Uniform(n, -32768, 32767, random)
                                     : Uniform(n, 0, 256, random);
    for (double& delta : deltas) delta = std::floor(delta);
    launch.Input(rule.rest, {n}, deltas, shift);
  }
  // Momenta, and second moments, which are not negative.
  const int scales = is_coded ? 2 : 0;
  for (int i = rule.split ? 1 : 0; i < rule.states - scales; ++i) {
    std::vector<double> moments =
        is_coded ? Uniform(n, 0, 256, random) : Uniform(n, 0, 0.1, random);
    for (double& m : moments) m = is_coded ? std::floor(m) : m;
    launch.Input(state, {n}, moments, shift);
  }
  const Shape by_block = MomentScales({n});
  for (int i = 0; i < scales; ++i) {
    launch.Input(DType::kF32, by_block, Uniform(by_block[0], 0.05, 0.1, random),
                 shift);
  }
  launch.Input(dtype, {n}, Uniform(n, -1, 1, random), shift);
  launch.Input(scalars.lr());
  if (rule.has_step) launch.Input(scalars.step());
  if (rule.has_seed()) launch.Input(scalars.seed());
  if (scaled) launch.Input(scalars.scale());
  for (int i = 0; i <= rule.states; ++i) {
    launch.OutputOver(static_cast<size_t>(i));
  }
}

std::vector<Launch> All(const Launches& launches) {
  std::vector<Launch> all;
  for (const LaunchBuilder& launch : launches) all.push_back(launch.launch());
  return all;
}

using Contents = std::vector<std::vector<std::byte>>;
Contents Results(const Rule& rule, const Launches& launches) {
  Contents contents;
  for (const LaunchBuilder& launch : launches) {
    CHECK(launch.intact());
    for (int i = 0; i <= rule.states; ++i) {
      contents.push_back(launch.bytes(static_cast<size_t>(i)));
    }
  }
  return contents;
}

// Sizes around packs, blocks' tiles and blocks.
constexpr int64_t kSizes[] = {1,    3,    4,    7,    8,     9,    255,
                              256,  257,  1023, 1024, 2049,  8191, 8192,
                              8193, 1000, 5,    17,   16389, 2,    100003};

std::vector<DType> TypesOf(const Rule& rule) {
  if (rule.split) return {DType::kBF16};
  if (rule.is_compact()) return {DType::kF32};
  return {DType::kF32, DType::kBF16, DType::kF16};
}

TEST_CASE("many parameters in one grid become what they become one by one") {
  const Scalars scalars;
  for (const Rule& rule : kRules) {
    CAPTURE(OpName(rule.op));
    const gpu::GpuKernel& kernel = gpu::GetKernel(rule.op);
    for (const DType dtype : TypesOf(rule)) {
      CAPTURE(DTypeName(dtype));
      const auto make = [&](Launches* launches) {
        for (const int64_t n : kSizes) {
          AddLaunch(rule, dtype, n, n % 2 == 0 ? 0.1 : 0, scalars,
                    static_cast<uint32_t>(n), launches, n % 3 != 0);
        }
      };
      Launches alone;
      make(&alone);
      GridQueue natural;
      for (const LaunchBuilder& launch : alone) {
        kernel.enqueue(launch.launch(), natural);
      }
      CHECK(natural.kernels() == std::ssize(kSizes));
      const Contents want = Results(rule, alone);
      for (const uint64_t seed : {1, 2, 3}) {
        Launches together;
        make(&together);
        GridQueue queue({.seed = seed});
        kernel.enqueue_many(All(together), queue);
        CHECK(queue.kernels() == 1);
        CHECK(Results(rule, together) == want);
      }
    }
  }
}

TEST_CASE("a parameter that starts anywhere becomes the same") {
  const Scalars scalars;
  for (const Rule& rule : kRules) {
    CAPTURE(OpName(rule.op));
    for (const DType dtype : TypesOf(rule)) {
      Contents want;
      for (const size_t shift : {0, 1, 3}) {
        CAPTURE(shift);
        Launches launches;
        AddLaunch(rule, dtype, 8200, 0.1, scalars, 5, &launches, true, shift);
        GridQueue queue({.seed = 1 + shift});
        gpu::GetKernel(rule.op).enqueue_many(All(launches), queue);
        const Contents got = Results(rule, launches);
        if (shift == 0) want = got;
        CHECK(got == want);
      }
    }
  }
}

TEST_CASE("nothing is updated in a step with a fault") {
  const Scalars scalars;
  for (const Rule& rule : kRules) {
    CAPTURE(OpName(rule.op));
    for (const DType dtype : TypesOf(rule)) {
      Launches launches;
      // Units and what is behind them; single elements.
      for (const size_t shift : {0, 1}) {
        AddLaunch(rule, dtype, 8200, 0.1, scalars, 5, &launches, true, shift);
        AddLaunch(rule, dtype, 7, 0.1, scalars, 6, &launches, true, shift);
      }
      const Contents before = Results(rule, launches);
      GridQueue queue({.seed = 1});
      *queue.fault().word = 3;
      gpu::GetKernel(rule.op).enqueue_many(All(launches), queue);
      gpu::GetKernel(rule.op).enqueue(launches[0].launch(), queue);
      CHECK(Results(rule, launches) == before);
      *queue.fault().word = gpu::kNoFault;
      gpu::GetKernel(rule.op).enqueue_many(All(launches), queue);
      CHECK(Results(rule, launches) != before);
    }
  }
}

TEST_CASE("a group whose scale is infinite is left as it is, and it alone") {
  const Scalars scalars, skipping(std::numeric_limits<double>::infinity());
  for (const Rule& rule : kRules) {
    CAPTURE(OpName(rule.op));
    for (const DType dtype : TypesOf(rule)) {
      // Units and what is behind them; single elements.
      const auto make = [&](const Scalars& second, Launches* launches) {
        for (const size_t shift : {0, 1}) {
          AddLaunch(rule, dtype, 8200, 0.1, scalars, 5, launches, true, shift);
          AddLaunch(rule, dtype, 8200, 0.1, second, 6, launches, true, shift);
          AddLaunch(rule, dtype, 7, 0.1, second, 7, launches, true, shift);
        }
      };
      Launches launches, all;
      make(skipping, &launches);
      make(scalars, &all);
      const Contents before = Results(rule, launches);
      GridQueue queue({.seed = 1}), other({.seed = 1});
      gpu::GetKernel(rule.op).enqueue_many(All(launches), queue);
      gpu::GetKernel(rule.op).enqueue_many(All(all), other);
      CHECK(queue.kernels() == 1);
      const Contents after = Results(rule, launches);
      const Contents updated = Results(rule, all);
      const size_t each = static_cast<size_t>(rule.states) + 1;
      for (size_t i = 0; i < after.size(); ++i) {
        CAPTURE(i);
        const bool skipped = i / each % 3 > 0;
        CHECK(after[i] == (skipped ? before[i] : updated[i]));
        if (skipped && i % each == 0) CHECK(updated[i] != before[i]);
      }
    }
  }
}

// Largest difference of result i.
double Difference(const LaunchBuilder& a, const LaunchBuilder& b, size_t i) {
  return LargestError(a.output(i), b.output(i));
}

TEST_CASE("updates agree with those of the CPU") {
  const Scalars scalars;
  cpu::ThreadPool pool(1);
  for (const Rule& rule : kRules) {
    CAPTURE(OpName(rule.op));
    const DType dtype = rule.split ? DType::kBF16 : DType::kF32;
    for (const int64_t n : {1, 257, 9001}) {
      Launches both;
      for (int i = 0; i < 2; ++i) {
        AddLaunch(rule, dtype, n, 0.1, scalars, 7, &both);
      }
      GridQueue queue({.seed = 1});
      gpu::GetKernel(rule.op).enqueue(both[0].launch(), queue);
      cpu::GetKernel(rule.op).run(both[1].launch(), pool);
      for (size_t i = 0; i <= static_cast<size_t>(rule.states); ++i) {
        CAPTURE(i);
        if (rule.split && i < 2) continue;
        // Where an error of f32 tips what is kept: a code, or a bf16 number.
        const bool tips = rule.moments && rule.moments != DType::kF32;
        CHECK(Difference(both[0], both[1], i) < (tips ? 1.0 / 250 : 1e-6));
      }
      if (!rule.split) continue;
      // The f32 weights that bf16 and the rest are together.
      const Launch gpu_launch = both[0].launch();
      const Launch cpu_launch = both[1].launch();
      for (int64_t k = 0; k < n; ++k) {
        const bool is_short = rule.rest == DType::kU8;
        const auto master = [&](const Launch& launch) {
          const uint16_t weight = launch.outputs[0].as<uint16_t>()[k];
          const TensorView& rest = launch.outputs[1];
          return is_short ? math::JoinShort({weight, rest.as<uint8_t>()[k]})
                          : math::Join({weight, rest.as<int16_t>()[k]});
        };
        CHECK(std::fabs(master(gpu_launch) - master(cpu_launch)) <
              (is_short ? 0x1p-15f : 1e-6f));
      }
    }
  }
}

TEST_CASE("AdamW computes the published formula at any step") {
  // Three elements by hand: Loshchilov & Hutter 2019, algorithm 2.
  for (const int64_t step : {1, 2, 1000}) {
    LaunchBuilder launch(OpKind::kAdamWUpdate, AttrsOf(kRules[2], 0.1));
    launch.Input(DType::kF32, {3}, {1, -0.5, 0.25});
    launch.Input(DType::kF32, {3}, {0.5, 0, -0.125});
    launch.Input(DType::kF32, {3}, {0.25, 0, 1});
    launch.Input(DType::kF32, {3}, {0.5, -1, 2});
    launch.Input(DType::kF32, {}, {0.0625});
    launch.Input(DType::kI64, {}, {static_cast<double>(step)});
    for (const size_t i : {0, 1, 2}) launch.OutputOver(i);
    const double w[] = {1, -0.5, 0.25}, m[] = {0.5, 0, -0.125},
                 v[] = {0.25, 0, 1}, g[] = {0.5, -1, 2};
    GridQueue queue;
    gpu::GetKernel(OpKind::kAdamWUpdate).enqueue(launch.launch(), queue);
    for (size_t i = 0; i < 3; ++i) {
      const double new_m = 0.9 * m[i] + (1 - 0.9) * g[i];
      const double new_v = 0.95 * v[i] + (1 - 0.95) * g[i] * g[i];
      const double t = static_cast<double>(step);
      const double m_hat = new_m / (1 - std::pow(0.9, t));
      const double v_hat = new_v / (1 - std::pow(0.95, t));
      const double want = w[i] - 0.0625 * 0.1 * w[i] -
                          0.0625 * m_hat / (std::sqrt(v_hat) + 1e-8);
      CHECK(launch.output(0)[i] == doctest::Approx(want).epsilon(1e-6));
      CHECK(launch.output(1)[i] == doctest::Approx(new_m).epsilon(1e-6));
      CHECK(launch.output(2)[i] == doctest::Approx(new_v).epsilon(1e-6));
    }
  }
}

TEST_CASE("more parameters than a grid has room for take several") {
  const Scalars scalars;
  for (const Rule& rule : kRules) {
    CAPTURE(OpName(rule.op));
    const DType dtype = rule.split ? DType::kBF16 : DType::kF32;
    Launches alone, together;
    for (uint32_t i = 0; i < 200; ++i) {
      for (Launches* launches : {&alone, &together}) {
        AddLaunch(rule, dtype, 1 + i * 7 % 40, 0.1, scalars, i, launches);
      }
    }
    GridQueue natural;
    for (const LaunchBuilder& launch : alone) {
      gpu::GetKernel(rule.op).enqueue(launch.launch(), natural);
    }
    GridQueue queue({.seed = 2});
    gpu::GetKernel(rule.op).enqueue_many(All(together), queue);
    CHECK(queue.kernels() > 1);
    CHECK(queue.kernels() <= 5);
    CHECK(Results(rule, together) == Results(rule, alone));
  }
}

TEST_CASE("parameters of many settings are each updated with their own") {
  const Rule& rule = kRules[1];
  const Scalars scalars, others;
  Launches alone, together;
  for (uint32_t i = 0; i < 20; ++i) {
    for (Launches* launches : {&alone, &together}) {
      AddLaunch(rule, DType::kF32, 10, 0.01 * i, i % 2 == 0 ? scalars : others,
                i, launches);
    }
  }
  GridQueue natural;
  for (const LaunchBuilder& launch : alone) {
    gpu::GetKernel(rule.op).enqueue(launch.launch(), natural);
  }
  GridQueue queue;
  gpu::GetKernel(rule.op).enqueue_many(All(together), queue);
  CHECK(queue.kernels() > 1);
  CHECK(queue.kernels() < 20);
  CHECK(Results(rule, together) == Results(rule, alone));
}

TEST_CASE("element types alternate") {
  const Rule& rule = kRules[0];
  const Scalars scalars;
  Launches alone, together;
  const DType types[] = {DType::kF32, DType::kF32, DType::kBF16, DType::kF16,
                         DType::kF32};
  for (size_t i = 0; i < std::size(types); ++i) {
    for (Launches* launches : {&alone, &together}) {
      AddLaunch(rule, types[i], 100, 0.1, scalars, static_cast<uint32_t>(i),
                launches);
    }
  }
  GridQueue natural;
  for (const LaunchBuilder& launch : alone) {
    gpu::GetKernel(rule.op).enqueue(launch.launch(), natural);
  }
  GridQueue queue;
  gpu::GetKernel(rule.op).enqueue_many(All(together), queue);
  CHECK(queue.kernels() == 4);
  CHECK(Results(rule, together) == Results(rule, alone));
}

TEST_CASE("an update that reads what one before it wrote waits for it") {
  const Scalars scalars;
  const auto make = [&](Launches* launches) {
    const int64_t n = 20000;
    AddLaunch(kRules[0], DType::kF32, n, 0.1, scalars, 1, launches);
    // w's second update, with the gradient that w itself is: two blocks apart
    // in a grid nothing would say which comes first.
    LaunchBuilder& second =
        launches->emplace_back(OpKind::kSgdUpdate, AttrsOf(kRules[0], 0));
    second.Input((*launches)[0].input(0));
    second.Input((*launches)[0].input(1));
    second.Input(scalars.lr());
    second.OutputOver(0);
    LaunchBuilder& third =
        launches->emplace_back(OpKind::kSgdUpdate, AttrsOf(kRules[0], 0));
    third.Input(DType::kF32, {n}, std::vector<double>(20000, 0.5));
    third.Input((*launches)[0].input(0));
    third.Input(scalars.lr());
    third.OutputOver(0);
  };
  Launches alone, together;
  make(&alone);
  make(&together);
  const gpu::GpuKernel& kernel = gpu::GetKernel(OpKind::kSgdUpdate);
  GridQueue natural;
  for (const LaunchBuilder& launch : alone) {
    kernel.enqueue(launch.launch(), natural);
  }
  GridQueue queue({.seed = 4});
  kernel.enqueue_many(All(together), queue);
  CHECK(queue.kernels() == 3);
  CHECK(Results(kRules[0], together) == Results(kRules[0], alone));
}

TEST_CASE("a bf16 weight keeps steps that are smaller than its last bit") {
  // Each step moves 1 by 2^-12, a sixteenth of bf16's spacing below 1.
  LaunchBuilder launch(OpKind::kAdamWSplitUpdate, AttrsOf(kRules[3], 0));
  launch.Input(DType::kBF16, {1}, {1});
  launch.Input(DType::kI16, {1}, {0});
  launch.Input(DType::kF32, {1}, {1});  // with g = 1, m and v stay
  launch.Input(DType::kF32, {1}, {1});
  launch.Input(DType::kBF16, {1}, {1});
  launch.Input(DType::kF32, {}, {0x1p-12});
  launch.Input(DType::kI64, {}, {1e9});  // no correction any more
  for (const size_t i : {0, 1, 2, 3}) launch.OutputOver(i);
  GridQueue queue;
  for (int step = 0; step < 16; ++step) {
    gpu::GetKernel(OpKind::kAdamWSplitUpdate).enqueue(launch.launch(), queue);
  }
  CHECK(launch.output(0)[0] == doctest::Approx(1 - 16 * 0x1p-12));
}

}  // namespace
}  // namespace stowage
