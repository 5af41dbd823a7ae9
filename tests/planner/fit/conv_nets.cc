#include "tests/planner/fit/conv_nets.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "nn/image_nets.h"
#include "nn/layers.h"
#include "planner/fit/recompute/chain.h"
#include "planner/fit/recompute/simulation.h"
#include "planner/plan_memory.h"

namespace stowage::fit {
namespace {

constexpr DType kF32 = DType::kF32;

double Count(const Shape& shape) {
  return static_cast<double>(shape.num_elements());
}

// A convolution as Keras says it. `pad` rows and columns of zeros are added by
// a layer of their own; without, the convolution adds what it needs.
struct ConvSpec {
  int64_t filters = 0;
  int64_t kernel = 0;
  int64_t stride = 1;
  int64_t pad = 0;
  bool has_bias = true;
  bool has_relu = false;
};

// What the four nets are written in. A layer gives its result. Axes are named, not
// numbered: N, H, W and C lie as an implementation has them.
class Layers {
 public:
  virtual ~Layers() = default;

  virtual Value image() = 0;
  /// x (N, H, W, C) -> (N, H / stride, W / stride, filters), rounded up.
  virtual Value Conv(const std::string& name, Value x,
                     const ConvSpec& spec) = 0;
  virtual Value DepthwiseConv(const std::string& name, Value x,
                              const ConvSpec& spec) = 0;
  virtual Value BatchNorm(const std::string& name, Value x) = 0;
  virtual Value Relu(const std::string& name, Value x) = 0;
  virtual Value MaxPool(const std::string& name, Value x, int64_t window,
                        int64_t stride, int64_t pad) = 0;
  /// (N, H, W, C) -> (N, C)
  virtual Value GlobalAveragePool(const std::string& name, Value x) = 0;
  /// Every pixel twice in both directions.
  virtual Value Upsample(const std::string& name, Value x) = 0;
  virtual Value Concatenate(const std::string& name, Value a, Value b) = 0;
  virtual Value Sum(const std::string& name, Value a, Value b) = 0;
  /// A map (H, W, C) to its elements (H * W * C), and (C) to a map of one pixel.
  virtual Value Flatten(const std::string& name, Value x) = 0;
  virtual Value AsPixel(const std::string& name, Value x) = 0;
  /// Maps whose channels are logits, each pixel an example.
  virtual Value Pixels(const std::string& name, Value x) = 0;
  virtual Value Drop(const std::string& name, Value x, double p) = 0;
  /// (N, C) -> (N, units)
  virtual Value Dense(const std::string& name, Value x, int64_t units,
                      bool has_relu) = 0;
  /// The step; `has_softmax` says that the last layer is one already, in Keras.
  virtual Graph Finish(Value logits, bool has_softmax) = 0;
};

int64_t Reduced(int64_t size, int64_t stride) {
  return (size + stride - 1) / stride;
}

// The layers of nn/, whose params and gradients are real.
class StepLayers final : public Layers {
 public:
  StepLayers(const char* name, int64_t batch, int64_t height, int64_t width)
      : g_(name), image_(g_.Input("image", kF32, {batch, 3, height, width})) {}

  Value image() override { return image_; }

  Value Conv(const std::string& name, Value x, const ConvSpec& spec) override {
    const Value y = stowage::Conv(x, name, spec.filters, OptionsOf(x, spec));
    return spec.has_relu ? Relu(name + ".relu", y) : y;
  }

  Value DepthwiseConv(const std::string& name, Value x,
                      const ConvSpec& spec) override {
    ConvLayerOptions options = OptionsOf(x, spec);
    options.groups = x.dim(1);
    return stowage::Conv(x, name, x.dim(1), options);
  }

  Value BatchNorm(const std::string& name, Value x) override {
    return stowage::BatchNorm(x, name);
  }
  Value Relu(const std::string& name, Value x) override {
    return g_.Name(name, stowage::Relu(x));
  }
  Value MaxPool(const std::string& name, Value x, int64_t window,
                int64_t stride, int64_t pad) override {
    return g_.Name(
        name, stowage::MaxPool(
                  x, {.kernel = window, .stride = stride, .padding = pad / 2}));
  }
  Value GlobalAveragePool(const std::string& name, Value x) override {
    return g_.Name(name, ReduceMean(x, {2, 3}));
  }
  Value Upsample(const std::string& name, Value x) override {
    return g_.Name(
        name, Resize(x, {2 * x.dim(2), 2 * x.dim(3)}, ResizeMode::kNearest));
  }
  Value Concatenate(const std::string& name, Value a, Value b) override {
    const Value parts[] = {a, b};
    return g_.Name(name, Concat(parts, 1));
  }
  Value Sum(const std::string& name, Value a, Value b) override {
    return g_.Name(name, Add(a, b));
  }
  Value Flatten(const std::string&, Value x) override {
    return Reshape(x, {x.dim(0), x.shape().num_elements() / x.dim(0)});
  }
  Value AsPixel(const std::string&, Value x) override {
    return Reshape(x, {x.dim(0), x.dim(1), 1, 1});
  }
  Value Pixels(const std::string&, Value x) override {
    return Permute(x, {0, 2, 3, 1});
  }
  Value Drop(const std::string& name, Value x, double p) override {
    const Value seed = g_.Input("seed", DType::kI64, {});
    const Value step = g_.Input("step", DType::kI64, {});
    return g_.Name(name, Dropout(x, seed, step, p, 0));
  }
  Value Dense(const std::string& name, Value x, int64_t units,
              bool has_relu) override {
    const Value y = Linear(x, name, units);
    return has_relu ? Relu(name + ".relu", y) : y;
  }

  /// The step, with the mean cross-entropy of logits (..., classes) as loss.
  Graph Finish(Value logits, bool /*has_softmax*/) override {
    const Shape shape = logits.shape();
    std::vector<int64_t> rows(shape.begin(), shape.end() - 1);
    const Value labels = g_.Input("labels", DType::kI32, Shape(rows));
    g_.Output("loss", g_.Name("loss", CrossEntropy(logits, labels)));
    const Result<Graph> forward = g_.Finish();
    STOWAGE_CHECK(forward.ok());
    Result<Graph> step = BuildTrainStep(
        *forward, "loss", {.optimizer = Momentum{.momentum = 0.9}});
    STOWAGE_CHECK(step.ok());
    return std::move(*step);
  }

 private:
  // As Keras pads: what is missing, one side first, the odd one behind.
  static ConvLayerOptions OptionsOf(Value x, const ConvSpec& spec) {
    std::vector<int64_t> before, after;
    for (const int64_t size : {x.dim(2), x.dim(3)}) {
      const int64_t reach =
          (Reduced(size, spec.stride) - 1) * spec.stride + spec.kernel;
      const int64_t pad =
          spec.pad > 0 ? spec.pad : std::max<int64_t>(reach - size, 0);
      before.push_back(pad / 2);
      after.push_back(pad - pad / 2);
    }
    before.insert(before.end(), after.begin(), after.end());
    return {.kernel = spec.kernel,
            .stride = spec.stride,
            .padding = before,
            .bias = spec.has_bias};
  }

  GraphBuilder g_;
  Value image_;
};

// The same layers as Checkmate has them (its extraction from Keras): a node a
// layer and a node for its gradient, which is as large as the layer's result
// and costs twice as much; it reads that result, those of the next layers, and
// their gradients. Params and images are not in the graph.
class CheckmateLayers final : public Layers {
 public:
  CheckmateLayers(const char* name, int64_t batch, int64_t height,
                  int64_t width)
      : g_(name), batch_(batch), image_(g_.Input("image", kF32, {})) {
    shapes_[image_.id()] = {batch, height, width, 3};
  }

  Value image() override { return image_; }

  Value Conv(const std::string& name, Value x, const ConvSpec& spec) override {
    const double macs =
        static_cast<double>(spec.kernel * spec.kernel * ShapeOf(x)[3]);
    return Convolve(name, x, spec, spec.filters, macs);
  }
  Value DepthwiseConv(const std::string& name, Value x,
                      const ConvSpec& spec) override {
    return Convolve(name, x, spec, ShapeOf(x)[3],
                    static_cast<double>(spec.kernel * spec.kernel));
  }
  Value BatchNorm(const std::string& name, Value x) override {
    return Layer(name, {x}, ShapeOf(x), 4 * Count(ShapeOf(x)));
  }
  Value Relu(const std::string& name, Value x) override {
    return Layer(name, {x}, ShapeOf(x), Count(ShapeOf(x)));
  }
  Value MaxPool(const std::string& name, Value x, int64_t window,
                int64_t stride, int64_t pad) override {
    x = Pad(name, x, pad);
    const Shape& s = ShapeOf(x);
    return Layer(name, {x},
                 {s[0], (s[1] - window) / stride + 1,
                  (s[2] - window) / stride + 1, s[3]},
                 0);
  }
  Value GlobalAveragePool(const std::string& name, Value x) override {
    return Layer(name, {x}, {ShapeOf(x)[0], ShapeOf(x)[3]}, 0);
  }
  Value Upsample(const std::string& name, Value x) override {
    const Shape& s = ShapeOf(x);
    const Shape shape = {s[0], 2 * s[1], 2 * s[2], s[3]};
    return Layer(name, {x}, shape, Count(shape));
  }
  Value Concatenate(const std::string& name, Value a, Value b) override {
    Shape shape = ShapeOf(a);
    shape[3] += ShapeOf(b)[3];
    return Layer(name, {a, b}, shape, 0);
  }
  Value Sum(const std::string& name, Value a, Value b) override {
    return Layer(name, {a, b}, ShapeOf(a), 2 * Count(ShapeOf(a)));
  }
  Value Flatten(const std::string& name, Value x) override {
    const Shape& s = ShapeOf(x);
    return Layer(name, {x}, {s[0], s.num_elements() / s[0]}, 0);
  }
  Value AsPixel(const std::string& name, Value x) override {
    const Shape& s = ShapeOf(x);
    return Layer(name, {x}, {s[0], 1, 1, s[1]}, 0);
  }
  Value Pixels(const std::string& name, Value x) override {
    const Shape& s = ShapeOf(x);
    return Layer(name, {x}, {s[0] * s[1] * s[2], s[3]}, 0);
  }
  Value Drop(const std::string& name, Value x, double) override {
    return Layer(name, {x}, ShapeOf(x), 0);
  }
  Value Dense(const std::string& name, Value x, int64_t units, bool) override {
    const Shape& s = ShapeOf(x);
    return Layer(name, {x}, {s[0], units},
                 static_cast<double>(s[0] * s[1] * units));
  }

  Graph Finish(Value logits, bool has_softmax) override {
    if (!has_softmax) logits = Relu("softmax", logits);  // costs as much
    g_.SetOrigin(Phase::kBackward, "loss");
    Value gradient = Emit({logits}, {batch_}, 0);
    g_.Output("loss", gradient);
    std::map<ValueId, Value> gradients;
    while (!layers_.empty()) {
      const auto layer = std::move(layers_.back());
      layers_.pop_back();
      g_.SetOrigin(Phase::kBackward, layer.name);
      std::vector<Value> operands = {layer.result};
      for (const Value next : next_[layer.result.id()]) {
        operands.push_back(next);
        operands.push_back(gradients.at(next.id()));
      }
      if (operands.size() == 1) operands.push_back(gradient);
      gradients[layer.result.id()] =
          Emit(operands, ShapeOf(layer.result), 2 * layer.cost);
    }
    Result<Graph> graph = g_.Finish();
    STOWAGE_CHECK(graph.ok());
    return std::move(*graph);
  }

 private:
  struct KerasLayer {
    std::string name;
    Value result;
    double cost;
  };

  const Shape& ShapeOf(Value x) const { return shapes_.at(x.id()); }

  Value Emit(const std::vector<Value>& operands, const Shape& shape,
             double cost) {
    return StandIn(operands, kF32, {&shape, 1}, cost)[0];
  }

  Value Layer(const std::string& name, const std::vector<Value>& operands,
              const Shape& shape, double cost) {
    const Value y = g_.Name(name, Emit(operands, shape, cost));
    shapes_[y.id()] = shape;
    layers_.push_back({name, y, cost});
    for (const Value x : operands) next_[x.id()].push_back(y);
    return y;
  }

  Value Pad(const std::string& name, Value x, int64_t pad) {
    if (pad == 0) return x;
    const Shape& s = ShapeOf(x);
    return Layer(name + "_pad", {x}, {s[0], s[1] + pad, s[2] + pad, s[3]}, 0);
  }

  Value Convolve(const std::string& name, Value x, const ConvSpec& spec,
                 int64_t filters, double macs) {
    x = Pad(name, x, spec.pad);
    const Shape& s = ShapeOf(x);
    const auto size = [&](int64_t before) {
      return spec.pad > 0 ? (before - spec.kernel) / spec.stride + 1
                          : Reduced(before, spec.stride);
    };
    const Shape shape = {s[0], size(s[1]), size(s[2]), filters};
    return Layer(name, {x}, shape, macs * Count(shape));
  }

  GraphBuilder g_;
  int64_t batch_;
  Value image_;
  std::map<ValueId, Shape> shapes_;
  std::vector<KerasLayer> layers_;
  std::map<ValueId, std::vector<Value>> next_;
};

// A block of VGG without its pool.
Value VggBlock(Layers& net, int block, Value x, int64_t filters, int convs) {
  for (int k = 1; k <= convs; ++k) {
    x = net.Conv(StrCat("block", block, "_conv", k), x,
                 {.filters = filters, .kernel = 3, .has_relu = true});
  }
  return x;
}

template <typename Net>
Graph Vgg19(int64_t batch) {
  Net net("vgg19", batch, 224, 224);
  Value x = net.image();
  const int64_t filters[] = {64, 128, 256, 512, 512};
  const int convs[] = {2, 2, 4, 4, 4};
  for (int block = 1; block <= 5; ++block) {
    x = VggBlock(net, block, x, filters[block - 1], convs[block - 1]);
    x = net.MaxPool(StrCat("block", block, "_pool"), x, 2, 2, 0);
  }
  x = net.Flatten("flatten", x);
  x = net.Dense("fc1", x, 4096, true);
  x = net.Dense("fc2", x, 4096, true);
  return net.Finish(net.Dense("predictions", x, 1000, false), true);
}

template <typename Net>
Graph UNet(int64_t batch) {
  Net net("unet", batch, 416, 608);
  const int64_t filters[] = {64, 128, 256, 512};
  const int convs[] = {2, 2, 3, 3};
  std::vector<Value> pools;
  Value x = net.image();
  for (int block = 1; block <= 4; ++block) {
    x = VggBlock(net, block, x, filters[block - 1], convs[block - 1]);
    x = net.MaxPool(StrCat("block", block, "_pool"), x, 2, 2, 0);
    pools.push_back(x);
  }
  for (int level = 4; level >= 1; --level) {
    const std::string name = StrCat("up", level);
    if (level < 4) {
      x = net.Upsample(name + "_upsample", x);
      x = net.Concatenate(name + "_concat", x,
                          pools[static_cast<size_t>(level - 1)]);
    }
    x = net.Conv(name + "_conv", x,
                 {.filters = filters[level - 1],
                  .kernel = 3,
                  .pad = 2,
                  .has_relu = true});
    x = net.BatchNorm(name + "_bn", x);
  }
  constexpr int64_t kClasses = 19;
  x = net.Conv("scores", x, {.filters = kClasses, .kernel = 3});
  return net.Finish(net.Pixels("pixels", x), false);
}

// 1 x 1, 3 x 3, 1 x 1, and what came in added, by a convolution if its shape
// differs.
Value ResNetBlock(Layers& net, const std::string& name, Value in,
                  int64_t filters, int64_t stride, bool has_shortcut) {
  const auto conv = [&](const char* layer, Value x, const ConvSpec& spec) {
    return net.Conv(StrCat(name, layer, "_conv"), x, spec);
  };
  const auto norm = [&](const char* layer, Value x) {
    return net.BatchNorm(StrCat(name, layer, "_bn"), x);
  };
  Value x =
      norm("_1",
           conv("_1", in, {.filters = filters, .kernel = 1, .stride = stride}));
  x = net.Relu(name + "_1_relu", x);
  x = norm("_2", conv("_2", x, {.filters = filters, .kernel = 3}));
  x = net.Relu(name + "_2_relu", x);
  Value shortcut = in;
  if (has_shortcut) {
    shortcut =
        conv("_0", in, {.filters = 4 * filters, .kernel = 1, .stride = stride});
  }
  x = conv("_3", x, {.filters = 4 * filters, .kernel = 1});
  if (has_shortcut) shortcut = norm("_0", shortcut);
  x = norm("_3", x);
  return net.Relu(name + "_out", net.Sum(name + "_add", shortcut, x));
}

template <typename Net>
Graph ResNet50(int64_t batch) {
  Net net("resnet50", batch, 224, 224);
  Value x = net.Conv("conv1", net.image(),
                     {.filters = 64, .kernel = 7, .stride = 2, .pad = 6});
  x = net.Relu("conv1_relu", net.BatchNorm("conv1_bn", x));
  x = net.MaxPool("pool1", x, 3, 2, 2);
  const int blocks[] = {3, 4, 6, 3};
  for (int stack = 0; stack < 4; ++stack) {
    for (int block = 1; block <= blocks[stack]; ++block) {
      const int64_t stride = stack > 0 && block == 1 ? 2 : 1;
      x = ResNetBlock(net, StrCat("conv", stack + 2, "_block", block), x,
                      int64_t{64} << stack, stride, block == 1);
    }
  }
  x = net.GlobalAveragePool("avg_pool", x);
  return net.Finish(net.Dense("predictions", x, 1000, false), true);
}

template <typename Net>
Graph MobileNet(int64_t batch) {
  Net net("mobilenet", batch, 224, 224);
  const auto bn_relu = [&](const std::string& name, Value x) {
    return net.Relu(name + "_relu", net.BatchNorm(name + "_bn", x));
  };
  Value x = bn_relu("conv1", net.Conv("conv1", net.image(),
                                      {.filters = 32,
                                       .kernel = 3,
                                       .stride = 2,
                                       .pad = 1,
                                       .has_bias = false}));
  struct Block {
    int64_t filters, stride;
  };
  const Block blocks[] = {{64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                          {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                          {512, 1}, {1024, 2}, {1024, 1}};
  int index = 0;
  for (const auto& [filters, stride] : blocks) {
    const std::string dw = StrCat("conv_dw_", ++index);
    const std::string pw = StrCat("conv_pw_", index);
    x = bn_relu(dw, net.DepthwiseConv(dw, x,
                                      {.kernel = 3,
                                       .stride = stride,
                                       .pad = stride - 1,
                                       .has_bias = false}));
    x = bn_relu(
        pw,
        net.Conv(pw, x, {.filters = filters, .kernel = 1, .has_bias = false}));
  }
  x = net.GlobalAveragePool("global_average_pooling", x);
  x = net.AsPixel("reshape_1", x);
  x = net.Drop("dropout", x, 1e-3);
  x = net.Conv("conv_preds", x, {.filters = 1000, .kernel = 1});
  return net.Finish(net.Flatten("reshape_2", x), false);
}

constexpr ConvNet kConvNets[] = {
    {"VGG19", Vgg19<StepLayers>, Vgg19<CheckmateLayers>, 289},
    {"U-Net", UNet<StepLayers>, UNet<CheckmateLayers>, 57},
    {"ResNet-50", ResNet50<StepLayers>, ResNet50<CheckmateLayers>, 193},
    {"MobileNet", MobileNet<StepLayers>, MobileNet<CheckmateLayers>, 1105},
};

}  // namespace

std::span<const ConvNet> ConvNets() { return kConvNets; }

double ForwardFlops(const Graph& step) {
  double flops = 0;
  for (const Node& node : step.nodes()) {
    if (node.phase == Phase::kForward) flops += NodeFlops(step, node);
  }
  return flops;
}

bool MayFitForOneForward(const Graph& step, Bytes budget) {
  const Result<Plan> plan = PlanMemory(step);
  STOWAGE_CHECK(plan.ok());
  const Bytes reserved = plan->arena_bytes() - plan->regions.span();
  const double most = ForwardFlops(step);
  const Simulation simulation(step, {});
  const RecomputeBound bound(step, simulation);
  constexpr int kEvery = 8;  // of the nodes, to save time
  for (NodeId n = 0; n < step.num_nodes(); ++n) {
    if (simulation.is_view(n)) continue;
    const Bytes free = budget - reserved - bound.Forced(n);
    if (free < 0) return false;
    if (n % kEvery != 0) continue;
    if (LeastCost(bound.Tradeoffs(n), free) > most) return false;
  }
  return true;
}

}  // namespace stowage::fit
