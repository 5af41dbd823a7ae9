// What a trial of the ways of attention finds, on a device that tells of each kernel how
// long it takes, and in which a way is right or wrong in one respect.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "gpu/attention_autotuner.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/queue.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/gpu/attention_net.h"
#include "tests/gpu/fake_device.h"
#include "tests/gpu/grid_runner.h"
#include "tests/gpu/op_check.h"
#include "tests/support/files.h"

namespace stowage::testing {
namespace {

using gpu::AttentionAlgorithm;
using gpu::AttentionParams;
using gpu::KernelCall;

TEST_CASE("results side by side are tried, too") {
  GraphBuilder g("side by side");
  const Shape shape{2, 5, 2, 16};
  std::vector<Value> qkv =
      Split(g.Input("x", DType::kF16, {2, 5, 96}), -1, {32, 32, 32});
  for (Value& x : qkv) x = Reshape(x, shape);
  const std::vector<Value> operands = {
      qkv[0],
      qkv[1],
      qkv[2],
      g.Input("o", DType::kF16, shape),
      g.Input("log_sum_exp", DType::kF32, {2, 2, 5}),
      g.Input("d_o", DType::kF16, shape)};
  const std::vector<Value> grad =
      g.Emit(OpKind::kAttentionQkvGrad, operands,
             {{"scale", 0.25}, {"causal", int64_t{1}}, {"window", int64_t{0}}});
  g.Output("dqkv", grad[0]);
  const Result<Graph> built = g.Finish();
  REQUIRE(built.ok());
  for (const bool is_wrong : {false, true}) {
    CAPTURE(is_wrong);
    const Opened opened = Open(EmptyFolder("side_by_side"));
    opened.device->SetSeconds(kGradKeys, 0.5e-3);
    if (is_wrong) {
      // An element of dv, which lies behind dq and dk.
      opened.device->Replace(kGradKeys, [](const KernelCall& call) {
        RunTestGrid(call, {});
        static_cast<uint16_t*>(ParamsOf(call).out[2])[3] ^= 0x8000;
      });
    }
    const auto run = RunOnce(*built, NumbersFor(*built), *opened.backend);
    REQUIRE_MESSAGE(run.ok(), run.error().message);
    CHECK(IsInGraph(opened, kGradKeys) == !is_wrong);
    CHECK((Tried(opened).find("left out: dv differs by ") !=
           std::string::npos) == is_wrong);
  }
}

// A way that is fast and wrong.
struct Wrong {
  const char* said;
  std::function<void(FakeDevice&)> make;
  Net net = {};
};

// The kernel does its work, and `spoil` something of it.
std::function<void(FakeDevice&)> Spoilt(
    const char* kernel, std::function<void(const AttentionParams&)> spoil) {
  return [=](FakeDevice& device) {
    device.Replace(kernel, [=](const KernelCall& call) {
      RunTestGrid(call, {});
      spoil(ParamsOf(call));
    });
  };
}

uint16_t& Element(void* of, size_t i) { return static_cast<uint16_t*>(of)[i]; }

std::vector<Wrong> AllWrong() {
  std::vector<Wrong> wrong;
  wrong.push_back(
      {"o differs by ", Spoilt(kForward, [](const AttentionParams& p) {
         Element(p.out[0], 7) ^= 0x8000;  // the sign
       })});
  wrong.push_back({"log_sum_exp differs by ",
                   Spoilt(kForward, [](const AttentionParams& p) {
                     p.log_sum_exp[4] += 0.001f;
                   })});
  wrong.push_back({"o was not written, or is not finite",
                   Spoilt(kForward, [](const AttentionParams& p) {
                     Element(p.out[0], 30) = 0x7F80;  // infinity
                   })});
  wrong.push_back(
      {"o was not written, or is not finite", [](FakeDevice& device) {
         device.Replace(kForward, [](const KernelCall&) {});
       }});
  wrong.push_back({"a second run gives other bits", [](FakeDevice& device) {
                     const auto runs = std::make_shared<int>(0);
                     device.Replace(kForward, [runs](const KernelCall& call) {
                       RunTestGrid(call, {});
                       Element(ParamsOf(call).out[0], 7) ^=
                           static_cast<uint16_t>(++*runs % 2);
                     });
                   }});
  wrong.push_back({"[gpu] attention, warpgroups was told to fail",
                   [](FakeDevice& device) { device.Refuse(kForward); }});
  wrong.push_back(
      {"a key length is reported that is in range",
       Spoilt(kForward, [](const AttentionParams& p) { *p.fault.word = 0; }),
       {.lengths = true}});
  // 16 in bf16, where it is below 1.
  wrong.push_back(
      {"dq differs by ",
       Spoilt(kGradQueries,
              [](const AttentionParams& p) { Element(p.out[0], 9) = 0x4180; }),
       {.grad = true}});
  wrong.push_back({"dk was not written, or is not finite",
                   [](FakeDevice& device) {
                     device.Replace(kGradKeys, [](const KernelCall&) {});
                   },
                   {.grad = true}});
  return wrong;
}

TEST_CASE("a way that is wrong is left out, and named, and stays out") {
  for (const Wrong& wrong : AllWrong()) {
    CAPTURE(wrong.said);
    const OutputBytes expected =
        Outputs(Open("", {AttentionAlgorithm::kWarps}), wrong.net);
    const std::string folder = EmptyFolder("wrong");
    const Opened opened = Open(folder);
    for (const char* kernel : {kForward, kGradKeys, kGradQueries}) {
      opened.device->SetSeconds(kernel, 0.1e-3);
    }
    wrong.make(*opened.device);
    // In the gradient's cases the forward way is right.
    if (!wrong.net.grad) {
      CHECK(Outputs(opened, wrong.net) == expected);
      CHECK_FALSE(IsInGraph(opened, kForward));
    } else {
      Outputs(opened, wrong.net);
    }
    CHECK_FALSE(IsInGraph(opened, kGradKeys));
    CHECK(Tried(opened).find(StrCat("by warpgroups left out: ", wrong.said)) !=
          std::string::npos);
    // What was out stays out where it would be right, so that bits stay.
    const Opened next = Open(folder);
    Outputs(next, wrong.net);
    CHECK(IsInGraph(next, "attention") == !wrong.net.grad);
    CHECK_FALSE(IsInGraph(next, kGradKeys));
    CHECK(Tried(next).empty());
  }
}

TEST_CASE("products of warps that differ from run to run are taken, and told") {
  const Opened opened = Open(EmptyFolder("unsound"));
  int runs = 0;
  opened.device->Replace("attention", [&runs](const KernelCall& call) {
    RunTestGrid(call, {});
    Element(ParamsOf(call).out[0], 7) ^= static_cast<uint16_t>(++runs % 2);
  });
  Outputs(opened);
  CHECK(IsInGraph(opened, "attention"));
  CHECK(Tried(opened).ends_with(
      ": by warps left out: a second run gives other bits"));
}

TEST_CASE("a way that breaks the device is an error, and not tried again") {
  const std::string folder = EmptyFolder("broken");
  const Opened opened = Open(folder);
  opened.device->FailInKernel(kForward);
  const auto run = Run(opened, {});
  REQUIRE_FALSE(run.ok());
  CHECK(run.error().code == ErrorCode::kDevice);
  CHECK(run.error().message.find(StrCat(
            "[gpu] a trial of attention bf16(1, 5, 2, 16) by warpgroups broke "
            "the device: [gpu] an illegal memory access; start again: \"",
            FileIn(folder), "\" has it computed by warps now")) !=
        std::string::npos);
  const Opened next = Open(folder);
  next.device->FailInKernel(kForward);
  Outputs(next);
  CHECK(IsInGraph(next, "attention"));
}

TEST_CASE("a trial leaves the arena as it is, and gives its memory back") {
  const Opened opened = Open(EmptyFolder("arena"));
  FakeDevice& device = *opened.device;
  std::vector<std::byte> before;
  int64_t seen = 0;
  device.Replace("attention", [&](const KernelCall& call) {
    RunTestGrid(call, {});
    if (device.calls("LaunchGraph") > 0) return;
    const std::span<std::byte> arena = device.arena();
    const AttentionParams p = ParamsOf(call);
    for (const void* at :
         {p.q.data, p.k.data, p.v.data, static_cast<const void*>(p.out[0])}) {
      CHECK((at < arena.data() || at >= arena.data() + arena.size()));
    }
    const std::vector<std::byte> now(arena.begin(), arena.end());
    if (seen++ == 0) before = now;
    CHECK(now == before);
  });
  Outputs(opened);
  CHECK(seen > 2);
  CHECK(device.calls("Allocate") == 2);
  CHECK(device.arena().empty());
}

// All of a launch that its trial must have, too.
std::vector<int64_t> LieOf(const AttentionParams& p) {
  std::vector<int64_t> lie = {p.queries, p.keys,      p.heads, p.key_heads,
                              p.depth,   p.low,       p.high,  p.packed,
                              p.batch,   p.out_row[0]};
  for (const gpu::AttentionOperand& x : {p.q, p.k, p.v, p.o, p.d_o}) {
    const auto address = reinterpret_cast<uintptr_t>(x.data);
    lie.insert(lie.end(),
               {x.batch, x.row, x.head, static_cast<int64_t>(address % 16)});
  }
  lie.push_back(p.scale == 0.25f && p.key_lengths != nullptr);
  return lie;
}

TEST_CASE(
    "operands of a trial lie as those of the launch, statistics are right") {
  const Net nets[] = {
      {.batch = 2, .window = 3, .lengths = true, .packed = true, .grad = true},
      {.offset = 3, .grad = true}};
  for (const Net& net : nets) {
    CAPTURE(net.offset);
    const Opened opened =
        Open(EmptyFolder("lie"), gpu::kAllAttentionAlgorithms);
    FakeDevice& device = *opened.device;
    device.SetSeconds("attention grad, five products", 9e-3);
    std::vector<std::vector<int64_t>> tried, run;
    std::vector<float> statistics;
    const auto note = [&](const AttentionParams& p) {
      (device.calls("LaunchGraph") > 0 ? run : tried).push_back(LieOf(p));
    };
    device.Replace("attention", [&](const KernelCall& call) {
      RunTestGrid(call, {});
      const AttentionParams p = ParamsOf(call);
      statistics.assign(p.log_sum_exp,
                        p.log_sum_exp + p.batch * p.heads * p.queries);
      note(p);
    });
    device.Replace("attention grad, keys", [&](const KernelCall& call) {
      RunTestGrid(call, {});
      const AttentionParams p = ParamsOf(call);
      CHECK(std::equal(statistics.begin(), statistics.end(), p.log_sum_exp));
      note(p);
    });
    Outputs(opened, net);
    REQUIRE(run.size() == 2);
    // In the trial of the gradient attention is run once, for its statistics.
    for (const std::vector<int64_t>& lie : tried) {
      CHECK((lie == run[0] || lie == run[1]));
    }
    // Off its alignment it has no other way, and is not tried itself.
    CHECK(std::ranges::count(tried, run[0]) >= (net.offset == 0 ? 3 : 1));
    CHECK(std::ranges::count(tried, run[1]) >= 2);
  }
}

// The arena of such a net, of which forward attention is all there is.
Bytes ArenaOf(const Net& net) {
  const Opened opened =
      Open(EmptyFolder("arena"), {AttentionAlgorithm::kWarps});
  Bytes arena = 0;
  opened.device->Replace("attention", [&](const KernelCall& call) {
    arena = opened.device->arena_bytes();
    RunTestGrid(call, {});
  });
  Outputs(opened, net);
  return arena;
}

// A device that has so much free beside the net's arena.
Opened OpenWithFree(const Net& net, Bytes free, const std::string& folder) {
  return Open(folder, kTwoWays, {.total = 101'000'000 + ArenaOf(net) + free});
}

// What products of warps were given in trials, and in the end in the graph.
std::vector<AttentionParams> GivenToWarps(const Opened& opened,
                                          const Net& net) {
  std::vector<AttentionParams> given;
  opened.device->Replace("attention", [&](const KernelCall& call) {
    given.push_back(ParamsOf(call));
    RunTestGrid(call, {});
  });
  Outputs(opened, net);
  return given;
}

TEST_CASE("of a large batch a part is tried, and nothing where none fits") {
  const Net net{.batch = 12, .length = 33, .heads = 1};
  const Opened narrow = OpenWithFree(net, 40'000, EmptyFolder("narrow"));
  narrow.device->SetSeconds(kForward, 0.5e-3);
  const std::vector<AttentionParams> given = GivenToWarps(narrow, net);
  REQUIRE_FALSE(given.empty());
  // An entry has 4,224 bytes in q, k, v and o, and 132 in log_sum_exp: twice three do
  // not fit in half of what is free.
  for (const AttentionParams& p : given) CHECK(p.batch == 3);
  CHECK(IsInGraph(narrow, kForward));

  const Opened none = OpenWithFree(net, 2'000, EmptyFolder("none"));
  none.device->SetSeconds(kForward, 0.5e-3);
  Outputs(none, net);
  CHECK(IsInGraph(none, "attention"));
  CHECK(Tried(none).find("by warps untried: a trial needs ") !=
        std::string::npos);
}

TEST_CASE("of an entry that does not fit some heads are tried") {
  struct Case {
    Net net;
    Bytes free;
    int heads, key_heads;
    int64_t row, key_row;
  };
  for (
      const Case& c : {
          // Of eight heads of keys two: q, k, v and o have 33 rows of 64 bytes, 8,448, and
          // log_sum_exp 264. Four heads do not fit in half of what is free.
          Case{{.batch = 2, .length = 33, .heads = 8}, 30'000, 2, 2, 32, 32},
          // Of the six queries that share three: rows of 192 bytes, and of 64.
          Case{{.length = 33, .heads = 12, .sharing = 3}, 40'000, 6, 2, 96, 32},
          // Rows of all three side by side, of 64 + 2 x 64 bytes.
          Case{
              {.length = 33, .heads = 8, .packed = true}, 50'000, 2, 2, 96, 96},
          // Rows of half the heads would be multiples of 8 bytes, and not of 16: all heads,
          // which take more than half of what is free.
          Case{{.length = 33, .heads = 8, .packed = true, .more = 8},
               120'000,
               8,
               8,
               392,
               392},
      }) {
    CAPTURE(c.net.heads);
    CAPTURE(c.net.packed);
    const Opened opened = OpenWithFree(c.net, c.free, EmptyFolder("heads"));
    opened.device->SetSeconds(kForward, 0.5e-3);
    const std::vector<AttentionParams> given = GivenToWarps(opened, c.net);
    REQUIRE_FALSE(given.empty());
    for (const AttentionParams& p : given) {
      CHECK(p.batch == 1);
      CHECK(p.heads == c.heads);
      CHECK(p.key_heads == c.key_heads);
      CHECK(p.q.row == c.row);
      CHECK(p.k.row == c.key_row);
      CHECK(p.v.row == c.key_row);
      CHECK(p.q.head == 16);
    }
    CHECK(IsInGraph(opened, kForward));
    CHECK(Tried(opened).find("by warpgroups 0.500 ms") != std::string::npos);
  }
}

TEST_CASE("gradients of some heads are compared, too") {
  for (const bool packed : {false, true}) {
    CAPTURE(packed);
    const Net net{.length = 33, .heads = 8, .packed = packed, .grad = true};
    const Opened ample = Open(EmptyFolder("ample"));
    ample.device->SetSeconds(kGradKeys, 0.5e-3);
    const OutputBytes expected = Outputs(ample, net);
    Bytes arena = 0;
    ample.device->Replace("attention", [&](const KernelCall& call) {
      arena = ample.device->arena_bytes();
      RunTestGrid(call, {});
    });
    Outputs(ample, net);
    const Opened narrow = Open(EmptyFolder("narrow"), kTwoWays,
                               {.total = 101'000'000 + arena + 120'000});
    narrow.device->SetSeconds(kGradKeys, 0.5e-3);
    int heads = 0;
    narrow.device->Replace(kGradKeys, [&](const KernelCall& call) {
      if (narrow.device->calls("LaunchGraph") == 0)
        heads = ParamsOf(call).heads;
      RunTestGrid(call, {});
    });
    CHECK(Outputs(narrow, net) == expected);
    CHECK(heads > 0);
    CHECK(heads < 8);
    CHECK(IsInGraph(narrow, kGradKeys));
    // What is wrong with a head that was left out is not seen; with one of these it is.
    const Opened wrong = Open(EmptyFolder("wrong"), kTwoWays,
                              {.total = 101'000'000 + arena + 120'000});
    wrong.device->SetSeconds(kGradKeys, 0.5e-3);
    wrong.device->Replace(kGradKeys, [&](const KernelCall& call) {
      RunTestGrid(call, {});
      Element(ParamsOf(call).out[2], 3) ^= 0x8000;
    });
    Outputs(wrong, net);
    CHECK(Tried(wrong).find("by warpgroups left out: dv differs by ") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace stowage::testing
