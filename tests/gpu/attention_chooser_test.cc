// Which way of attention is chosen where there are several, on a device that tells of each
// kernel how long it takes, and in which a way is right or wrong in one respect.

#include "gpu/attention_chooser.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "gpu/attention_ways.h"
#include "gpu/gpu_backend.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/queue.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "runtime/backend.h"
#include "tests/gpu/fake_device.h"
#include "tests/gpu/grid_runner.h"
#include "tests/gpu/op_check.h"
#include "tests/support/files.h"
#include "tests/support/interpret.h"

namespace stowage::testing {
namespace {

namespace fs = std::filesystem;

using gpu::AttentionParams;
using gpu::AttentionWay;
using gpu::AttentionWays;
using gpu::KernelCall;

constexpr const char* kForward = "attention, warpgroups";
constexpr const char* kGradKeys = "attention grad, keys, warpgroups";
constexpr const char* kGradQueries = "attention grad, queries, warpgroups";

// A graph of attention, and of its gradient.
struct Net {
  DType dtype = DType::kBF16;
  int64_t batch = 1, length = 5, heads = 2, depth = 16;
  bool causal = true;
  int64_t window = 0;
  bool lengths = false;
  bool packed = false;  // q, k and v are slices of one tensor
  int64_t offset = 0;   // of q in a longer tensor, in elements
  bool grad = false;
};

Graph GraphOf(const Net& net) {
  GraphBuilder g("attention");
  const Shape shape{net.batch, net.length, net.heads, net.depth};
  const int64_t width = net.heads * net.depth;
  std::vector<Value> qkv;
  if (net.packed) {
    qkv = Split(g.Input("x", net.dtype, {net.batch, net.length, 3 * width}), -1,
                {width, width, width});
    for (Value& x : qkv) x = Reshape(x, shape);
  } else {
    const int64_t n = shape.num_elements();
    const Value x = g.Input("x", net.dtype, {net.offset + n});
    const Value q = Slice(x, 0, net.offset, net.offset + n);
    qkv = {Reshape(q, shape), g.Input("k", net.dtype, shape),
           g.Input("v", net.dtype, shape)};
  }
  AttentionOptions options = {
      .scale = 0.25, .causal = net.causal, .window = net.window};
  std::vector<Value> operands = qkv;
  if (net.lengths) {
    options.key_lengths = g.Input("lengths", DType::kI32, {net.batch});
    operands.push_back(options.key_lengths);
  }
  const std::vector<Value> forward = g.Emit(OpKind::kAttention, operands,
                                            {{"scale", 0.25},
                                             {"causal", int64_t{net.causal}},
                                             {"window", net.window}});
  g.Output("o", forward[0]);
  g.Output("log_sum_exp", forward[1]);
  if (net.grad) {
    const AttentionGrads grads =
        AttentionGrad(qkv[0], qkv[1], qkv[2], forward[0], forward[1],
                      g.Input("d_o", net.dtype, shape), options);
    g.Output("dq", grads.dq);
    g.Output("dk", grads.dk);
    g.Output("dv", grads.dv);
  }
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

Tensors NumbersFor(const Graph& graph) {
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    std::vector<double>& elements = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      elements.push_back(value.type.dtype == DType::kI32
                             ? 3
                             : static_cast<double>(i * 29 % 17 - 8) / 8);
    }
  }
  return leaves;
}

struct Opened {
  std::unique_ptr<Backend> backend;
  FakeDevice* device = nullptr;
};

constexpr AttentionWays kTwoWays = {AttentionWay::kWarps,
                                    AttentionWay::kWarpgroups};

Opened Open(const std::string& folder, AttentionWays ways = kTwoWays,
            FakeOptions options = {}) {
  options.blocks = 2;  // the arena, and that of a trial
  options.backend.attention = ways;
  options.backend.algorithm_folder = folder;
  Opened opened;
  opened.backend = MakeFakeBackend(options, &opened.device);
  return opened;
}

Result<OutputBytes> Run(const Opened& opened, const Net& net) {
  const Graph graph = GraphOf(net);
  return RunOnce(graph, NumbersFor(graph), *opened.backend);
}

OutputBytes Outputs(const Opened& opened, const Net& net = {}) {
  auto run = Run(opened, net);
  REQUIRE_MESSAGE(run.ok(), run.error().message);
  return *std::move(run);
}

// Whether the graphs that the device was given hold the kernel.
bool IsInGraph(const Opened& opened, std::string_view kernel) {
  return std::ranges::any_of(
      opened.device->captured(),
      [&](const CapturedKernel& captured) { return captured.name == kernel; });
}

// What the backend says of trials; empty: nothing.
std::string Tried(const Opened& opened) {
  const std::string all = opened.backend->description();
  const size_t at = all.find(gpu::kAttentionTried);
  return at == std::string::npos ? "" : all.substr(at);
}

// The file of choices in the folder; empty: there is none.
std::string FileIn(const std::string& folder) {
  std::string found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    CHECK(found.empty());
    found = entry.path().string();
  }
  return found;
}

int64_t ChoicesIn(const std::string& folder) {
  const std::string text = ReadAll(FileIn(folder));
  return std::count(text.begin(), text.end(), '\n') -
         1;  // the first is a title
}

// Kernels that load by bulk copies have tensor maps before them.
AttentionParams ParamsOf(const KernelCall& call) {
  AttentionParams params;
  REQUIRE(call.params_bytes >= sizeof(params));
  std::memcpy(&params,
              static_cast<const std::byte*>(call.params) + call.params_bytes -
                  sizeof(params),
              sizeof(params));
  return params;
}

TEST_CASE("the faster way is kept, and taken untried by the next process") {
  const std::string folder = EmptyFolder("faster");
  const Opened first = Open(folder);
  first.device->SetSeconds(kForward, 0.5e-3);
  Outputs(first);
  CHECK(IsInGraph(first, kForward));
  CHECK_FALSE(IsInGraph(first, "attention"));
  CHECK(Tried(first) ==
        "attention was tried: attention bf16(1, 5, 2, 16): by warps 1.000 ms, "
        "by warpgroups 0.500 ms");
  CHECK(fs::path(FileIn(folder))
            .filename()
            .string()
            .starts_with("attention-Fake-GPU-none-"));
  CHECK(ChoicesIn(folder) == 1);

  // What would be slower there is as it was.
  const Opened next = Open(folder);
  next.device->SetSeconds(kForward, 2e-3);
  Outputs(next);
  CHECK(IsInGraph(next, kForward));
  CHECK(Tried(next).empty());
  CHECK(next.device->calls("Time") == 0);
  CHECK(next.device->calls("Allocate") == 1);
  CHECK(ChoicesIn(folder) == 1);
}

TEST_CASE("of ways as fast, and of slower ones, products of warps are kept") {
  for (const double seconds : {0.985e-3, 1e-3, 2e-3}) {
    CAPTURE(seconds);
    const std::string folder = EmptyFolder("slower");
    const Opened opened = Open(folder);
    opened.device->SetSeconds(kForward, seconds);
    Outputs(opened);
    CHECK(IsInGraph(opened, "attention"));
    CHECK_FALSE(IsInGraph(opened, kForward));
    const Opened next = Open(folder);
    next.device->SetSeconds(kForward, 0.1e-3);
    Outputs(next);
    CHECK(IsInGraph(next, "attention"));
  }
}

TEST_CASE("attention and its gradient choose apart") {
  const Net net{.grad = true};
  const Opened forward = Open(EmptyFolder("forward"));
  forward.device->SetSeconds(kForward, 0.5e-3);
  forward.device->SetSeconds(kGradKeys, 2e-3);
  Outputs(forward, net);
  CHECK(IsInGraph(forward, kForward));
  CHECK(IsInGraph(forward, "attention grad, keys"));
  CHECK_FALSE(IsInGraph(forward, kGradKeys));
  CHECK_FALSE(IsInGraph(forward, kGradQueries));

  const Opened gradient = Open(EmptyFolder("gradient"));
  gradient.device->SetSeconds(kForward, 2e-3);
  gradient.device->SetSeconds(kGradKeys, 0.5e-3);
  Outputs(gradient, net);
  CHECK(IsInGraph(gradient, "attention"));
  CHECK_FALSE(IsInGraph(gradient, kForward));
  CHECK(IsInGraph(gradient, kGradKeys));
  CHECK(IsInGraph(gradient, kGradQueries));
  CHECK(Tried(gradient).ends_with(
      "; attention_grad bf16(1, 5, 2, 16): by warps 3.000 ms, by warpgroups "
      "2.500 ms"));
}

TEST_CASE("a way of the gradient alone is tried for the gradient alone") {
  constexpr const char* kFive = "attention grad, five products";
  const Net net{.grad = true};
  const Opened faster = Open(EmptyFolder("five"), gpu::kAllAttentionWays);
  faster.device->SetSeconds(kFive, 0.25e-3);
  Outputs(faster, net);
  CHECK(IsInGraph(faster, "attention"));
  CHECK(IsInGraph(faster, kFive));
  CHECK_FALSE(IsInGraph(faster, "attention grad, keys"));
  CHECK(Tried(faster) ==
        "attention was tried: attention bf16(1, 5, 2, 16): by warps 1.000 ms, "
        "by warpgroups 1.000 ms; attention_grad bf16(1, 5, 2, 16): by warps "
        "3.000 ms, by warpgroups 3.000 ms, by five products 1.250 ms");

  // What a mask keeps it from is not tried.
  const Opened open_mask = Open(EmptyFolder("five"), gpu::kAllAttentionWays);
  Outputs(open_mask, {.causal = false, .grad = true});
  CHECK(Tried(open_mask).find("five products") == std::string::npos);
}

TEST_CASE("ways are compared with products of warps, also unasked") {
  const Opened opened =
      Open(EmptyFolder("unasked"),
           {AttentionWay::kWarpgroups, AttentionWay::kFiveProducts});
  Outputs(opened, {.grad = true});
  CHECK(Tried(opened).find("attention_grad bf16(1, 5, 2, 16): by warps") !=
        std::string::npos);
  // Also where the device has one alone of those that were asked for.
  const Opened other = Open(
      EmptyFolder("unasked"),
      {AttentionWay::kWarpgroups, AttentionWay::kFiveProducts}, {.major = 8});
  Outputs(other, {.grad = true});
  CHECK(Tried(other) ==
        "attention was tried: attention_grad bf16(1, 5, 2, 16): by warps 3.000 "
        "ms, by five products 2.000 ms");
}

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
        Outputs(Open("", {AttentionWay::kWarps}), wrong.net);
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

TEST_CASE("of two processes that try at once, both take what the first kept") {
  const std::string folder = EmptyFolder("two");
  const Opened one = Open(folder);
  const Opened other = Open(folder);
  one.device->SetSeconds(kForward, 0.5e-3);
  other.device->SetSeconds(kForward, 2e-3);
  Outputs(one);
  Outputs(other);
  CHECK(IsInGraph(one, kForward));
  CHECK_FALSE(Tried(other).empty());
  CHECK(IsInGraph(other, kForward));
  CHECK(ChoicesIn(folder) == 1);
}

TEST_CASE(
    "what differs in shape, mask, type, layout or alignment chooses apart") {
  const std::string folder = EmptyFolder("keys");
  const Net nets[] = {{},
                      {.batch = 2},
                      {.batch = 3},
                      {.length = 6},
                      {.heads = 1},
                      {.depth = 8},
                      {.dtype = DType::kF16},
                      {.causal = false},
                      {.window = 2},
                      {.lengths = true},
                      {.packed = true}};
  int64_t choices = 0;
  for (const Net& net : nets) {
    ++choices;
    CAPTURE(choices);
    // Twice by this process, and by the next.
    const Opened opened = Open(folder);
    Outputs(opened, net);
    CHECK(ChoicesIn(folder) == choices);
    Outputs(opened, net);
    Outputs(Open(folder), net);
    CHECK(ChoicesIn(folder) == choices);
  }
  // Of addresses that are multiples of 16 bytes and of more. Others have one way here.
  for (const int64_t offset : {8, 16, 1, 2, 4}) {
    Outputs(Open(folder), {.offset = offset});
    CHECK(ChoicesIn(folder) == choices);
  }
  // Five products take operands anywhere.
  const std::string anywhere = EmptyFolder("anywhere");
  choices = 0;
  for (const int64_t offset : {0, 1, 2, 4}) {
    Outputs(Open(anywhere, {AttentionWay::kWarps, AttentionWay::kFiveProducts}),
            {.offset = offset, .grad = true});
    CHECK(ChoicesIn(anywhere) == ++choices);
  }
}

TEST_CASE(
    "one way, or what the device lacks, is not tried and leaves no file") {
  const auto check = [](AttentionWays ways, const FakeOptions& options,
                        const char* kernel) {
    const std::string folder = EmptyFolder("untried");
    const Opened opened = Open(folder, ways, options);
    opened.device->SetSeconds(kForward, 0.1e-3);
    Outputs(opened, {.grad = true});
    CHECK(IsInGraph(opened, kernel));
    CHECK(opened.device->calls("Time") == 0);
    CHECK(opened.device->calls("Allocate") == 1);
    CHECK(FileIn(folder).empty());
    CHECK(Tried(opened).empty());
  };
  check({}, {}, "attention");
  check({AttentionWay::kWarps}, {}, "attention");
  check({AttentionWay::kWarpgroups}, {}, kForward);
  check(kTwoWays, {.major = 8}, "attention");
  check({AttentionWay::kWarpgroups}, {.major = 8}, "attention");
}

TEST_CASE(
    "where a launch leaves one way, or none that is allowed, nothing is "
    "tried") {
  const std::string folder = EmptyFolder("one");
  FakeDevice device(FakeOptions{});
  const auto choose = [&](AttentionWays asked, AttentionWays ways) {
    auto chooser = gpu::AttentionChooser::Open(asked, folder, device.traits());
    REQUIRE(chooser.ok());
    const auto way = chooser->Choose({}, ways, device, {});
    REQUIRE(way.ok());
    CHECK(chooser->found().empty());
    return *way;
  };
  const AttentionWays all = kTwoWays;
  CHECK(choose(all, {AttentionWay::kWarps}) == AttentionWay::kWarps);
  CHECK(choose(all, {AttentionWay::kWarpgroups}) == AttentionWay::kWarpgroups);
  CHECK(choose({AttentionWay::kWarpgroups}, all) == AttentionWay::kWarpgroups);
  CHECK(choose({AttentionWay::kWarpgroups}, {AttentionWay::kWarps}) ==
        AttentionWay::kWarps);
  CHECK(FileIn(folder).empty());
}

// That of opening a backend on such a device.
Error OpeningError(AttentionWays ways, const std::string& folder) {
  const auto backend =
      gpu::MakeGpuBackend(std::make_unique<FakeDevice>(FakeOptions{}),
                          {.attention = ways, .algorithm_folder = folder});
  REQUIRE_FALSE(backend.ok());
  return backend.error();
}

TEST_CASE("a damaged file, or none to keep in, is an error") {
  const std::string folder = EmptyFolder("damaged");
  Outputs(Open(folder));
  const std::string path = FileIn(folder);
  const std::string whole = ReadAll(path);
  std::ofstream(path, std::ios::trunc) << whole << "words\n";
  const Error damaged = OpeningError(kTwoWays, folder);
  CHECK(damaged.code == ErrorCode::kInvalidArgument);
  CHECK(damaged.message.find(
            StrCat("\"", path,
                   "\" is damaged at line 3; it says in which ways attention "
                   "is computed")) != std::string::npos);
  // A way that was not there to be chosen.
  REQUIRE(whole.ends_with(" 0 ;\n"));
  std::ofstream(path, std::ios::trunc)
      << whole.substr(0, whole.size() - 4) << "7 ;\n";
  const auto run = Run(Open(folder), {});
  REQUIRE_FALSE(run.ok());
  CHECK(run.error().code == ErrorCode::kInvalidArgument);
  CHECK(run.error().message.find("is damaged: it has attention computed in way "
                                 "7") != std::string::npos);
  // Nobody looks at it where nothing is chosen.
  Outputs(Open(folder, {AttentionWay::kWarps}));
  CHECK(OpeningError(kTwoWays, "")
            .message.find(
                "[gpu] attention may be computed in 2 ways, and there is no "
                "folder to keep in which") == 0);
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
    const Opened opened = Open(EmptyFolder("lie"), gpu::kAllAttentionWays);
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

TEST_CASE("of a large batch a part is tried, and nothing where none fits") {
  const Net net{.batch = 12, .length = 33, .heads = 1};
  const Opened ample = Open(EmptyFolder("ample"));
  Bytes arena = 0;
  ample.device->Replace("attention", [&](const KernelCall& call) {
    arena = ample.device->arena_bytes();
    CHECK(ParamsOf(call).batch == 12);
    RunTestGrid(call, {});
  });
  Outputs(ample, net);
  const auto with_free = [&](Bytes free, const std::string& folder) {
    return Open(folder, kTwoWays, {.total = 101'000'000 + arena + free});
  };
  const Opened narrow = with_free(40'000, EmptyFolder("narrow"));
  std::vector<int> batches;
  narrow.device->Replace("attention", [&](const KernelCall& call) {
    batches.push_back(ParamsOf(call).batch);
    RunTestGrid(call, {});
  });
  narrow.device->SetSeconds(kForward, 0.5e-3);
  Outputs(narrow, net);
  REQUIRE_FALSE(batches.empty());
  // An entry has 4,224 bytes in q, k, v and o, and 132 in log_sum_exp: twice three do
  // not fit in half of what is free.
  CHECK(std::ranges::max(batches) == 3);
  CHECK(IsInGraph(narrow, kForward));

  const Opened none = with_free(2'000, EmptyFolder("none"));
  none.device->SetSeconds(kForward, 0.5e-3);
  Outputs(none, net);
  CHECK(IsInGraph(none, "attention"));
  CHECK(Tried(none).find("by warps untried: a trial needs ") !=
        std::string::npos);
}

TEST_CASE("a run op by op takes the way that was chosen") {
  FakeOptions options;
  options.backend.check = true;
  const Opened opened = Open(EmptyFolder("checked"), kTwoWays, options);
  opened.device->SetSeconds(kForward, 0.5e-3);
  const OutputBytes outputs = Outputs(opened);
  std::string last;
  for (const std::string& kernel : opened.device->executed()) {
    if (kernel.starts_with("attention")) last = kernel;
  }
  CHECK(last == kForward);
  CHECK(outputs == Outputs(Open("", {AttentionWay::kWarpgroups})));
}

}  // namespace
}  // namespace stowage::testing
