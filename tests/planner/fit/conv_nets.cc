#include "tests/planner/fit/conv_nets.h"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "planner/fit/recompute/bound.h"
#include "planner/fit/recompute/rehearsal.h"
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

// What the four nets are written in. A layer gives its result.
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
  virtual Value View(const std::string& name, Value x, const Shape& shape) = 0;
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

// Emits a forward layer and remembers how its gradients are made; Finish makes
// them, from the last layer to the first.
class StepLayers final : public Layers {
 public:
  StepLayers(const char* name, int64_t batch, int64_t height, int64_t width)
      : g_(name),
        image_(g_.Input("image", kF32, {batch, height, width, 3})),
        lr_(g_.Input("lr", kF32, {})),
        step_(g_.Input("step", DType::kI64, {})) {}

  Value image() override { return image_; }

  Value Conv(const std::string& name, Value x, const ConvSpec& spec) override {
    const int64_t k = spec.kernel;
    const Value w = Weight(name + ".w", {k, k, x.dim(3), spec.filters});
    const Value b =
        spec.has_bias ? Weight(name + ".b", {spec.filters}) : Value();
    const Value y = Convolve(name, x, w, b, spec.filters, spec.stride,
                             static_cast<double>(k * k * x.dim(3)));
    return spec.has_relu ? Relu(name + ".relu", y) : y;
  }

  Value DepthwiseConv(const std::string& name, Value x,
                      const ConvSpec& spec) override {
    const int64_t k = spec.kernel;
    const Value w = Weight(name + ".w", {k, k, x.dim(3), 1});
    return Convolve(name, x, w, Value(), x.dim(3), spec.stride,
                    static_cast<double>(k * k));
  }

  Value BatchNorm(const std::string& name, Value x) override {
    const Shape channels = {x.dim(3)};
    const Value gamma = Weight(name + ".gamma", channels);
    const Value beta = Weight(name + ".beta", channels);
    const Value moving[] = {
        g_.State(name + ".moving_mean", kF32, channels),
        g_.State(name + ".moving_variance", kF32, channels)};
    const auto results =
        Emit({x, gamma, beta, moving[0], moving[1]},
             {x.shape(), channels, channels}, 8 * Count(x.shape()));
    const Value y = results[0], mean = results[1], rstd = results[2];
    OnBackward(name, y, [=, this](Value dy) {
      const auto grads =
          Emit({x, gamma, mean, rstd, dy}, {x.shape(), channels, channels},
               14 * Count(x.shape()));
      Update(gamma, grads[1]);
      Update(beta, grads[2]);
      Contribute(x, grads[0]);
    });
    return y;
  }

  Value Relu(const std::string& name, Value x) override {
    const Value y = stowage::Relu(x);
    OnBackward(name, y,
               [=, this](Value dy) { Contribute(x, ReluGrad(y, dy)); });
    return y;
  }

  Value MaxPool(const std::string& name, Value x, int64_t window,
                int64_t stride, int64_t /*pad*/) override {
    const Shape shape = {x.dim(0), Reduced(x.dim(1), stride),
                         Reduced(x.dim(2), stride), x.dim(3)};
    const double flops = static_cast<double>(window * window) * Count(shape);
    const Value y = Emit({x}, {shape}, flops)[0];
    OnBackward(name, y, [=, this](Value dy) {
      Contribute(x, Emit({x, y, dy}, {x.shape()}, flops)[0]);
    });
    return y;
  }

  Value GlobalAveragePool(const std::string& name, Value x) override {
    const Value y = ReduceMean(x, {1, 2});
    OnBackward(name, y, [=, this](Value dy) {
      const Value wide =
          BroadcastTo(Reshape(dy, {x.dim(0), 1, 1, x.dim(3)}), x.shape());
      Contribute(x,
                 MulScalar(wide, 1 / static_cast<double>(x.dim(1) * x.dim(2))));
    });
    return y;
  }

  Value Upsample(const std::string& name, Value x) override {
    const Shape shape = {x.dim(0), 2 * x.dim(1), 2 * x.dim(2), x.dim(3)};
    const Value y = Emit({x}, {shape}, Count(shape))[0];
    OnBackward(name, y, [=, this](Value dy) {
      Contribute(x, Emit({dy}, {x.shape()}, Count(shape))[0]);
    });
    return y;
  }

  Value Concatenate(const std::string& name, Value a, Value b) override {
    const Value parts[] = {a, b};
    const Value y = Concat(parts, 3);
    OnBackward(name, y, [=, this](Value dy) {
      Contribute(a, Slice(dy, 3, 0, a.dim(3)));
      Contribute(b, Slice(dy, 3, a.dim(3), y.dim(3)));
    });
    return y;
  }

  Value Sum(const std::string& name, Value a, Value b) override {
    const Value y = Add(a, b);
    OnBackward(name, y, [=, this](Value dy) {
      Contribute(a, dy);
      Contribute(b, dy);
    });
    return y;
  }

  Value View(const std::string& name, Value x, const Shape& shape) override {
    const Value y = Reshape(x, shape);
    OnBackward(name, y,
               [=, this](Value dy) { Contribute(x, Reshape(dy, x.shape())); });
    return y;
  }

  Value Drop(const std::string& name, Value x, double p) override {
    const Value seed = g_.Input("seed", DType::kI64, {});
    const Value y = Dropout(x, seed, step_, p, 0);
    OnBackward(name, y, [=, this](Value dy) {
      Contribute(x, Dropout(dy, seed, step_, p, 0));
    });
    return y;
  }

  Value Dense(const std::string& name, Value x, int64_t units,
              bool has_relu) override {
    const Value w = Weight(name + ".w", {x.dim(1), units});
    const Value b = Weight(name + ".b", {units});
    const Value y = Add(MatMul(x, w), b);
    OnBackward(name, y, [=, this](Value dy) {
      const Value dw = MatMul(x, dy, true);
      const Value dx = MatMul(dy, w, false, true);
      Update(w, dw);
      Update(b, ReduceSum(dy, {0}));
      Contribute(x, dx);
    });
    return has_relu ? Relu(name + ".relu", y) : y;
  }

  /// The step, with the mean cross-entropy of logits (rows, classes) as loss.
  Graph Finish(Value logits, bool /*has_softmax*/) override {
    const Value labels = g_.Input("labels", DType::kI32, {logits.dim(0)});
    const Value operands[] = {logits, labels};
    const auto loss = g_.Emit(OpKind::kCrossEntropy, operands, {});
    g_.Output("loss", loss[0]);
    g_.SetOrigin(Phase::kBackward, "loss");
    const Value seed = Fill(g_, 1, kF32, {});
    Contribute(logits, CrossEntropyGrad(logits, labels, loss[1], seed));
    while (!tape_.empty()) {
      const Layer layer = std::move(tape_.back());
      tape_.pop_back();
      layer_ = layer.name;
      g_.SetOrigin(Phase::kBackward, layer_);
      layer.backward(gradients_.at(layer.result));
    }
    Result<Graph> graph = g_.Finish();
    STOWAGE_CHECK(graph.ok());
    return std::move(*graph);
  }

 private:
  struct Layer {
    std::string name;
    ValueId result;
    std::function<void(Value dy)> backward;
  };

  Value Weight(const std::string& name, const Shape& shape) {
    return g_.Param(name, kF32, shape);
  }

  std::vector<Value> Emit(std::initializer_list<Value> operands,
                          std::initializer_list<Shape> shapes, double flops) {
    return StandIn(std::span(operands.begin(), operands.size()), kF32,
                   std::span(shapes.begin(), shapes.size()), flops);
  }

  void OnBackward(const std::string& name, Value result,
                  std::function<void(Value dy)> backward) {
    g_.Name(name, result);
    tape_.push_back({name, result.id(), std::move(backward)});
  }

  void Contribute(Value x, Value dx) {
    const auto [at, is_first] = gradients_.try_emplace(x.id(), dx);
    if (!is_first) at->second = Add(at->second, dx);
  }

  void Update(Value w, Value dw) {
    const std::string name = g_.info(w).name;
    const Value velocity = g_.State(name + ".velocity", kF32, w.shape());
    g_.SetOrigin(Phase::kUpdate, name);
    MomentumUpdate(w, velocity, dw, lr_, Value(), 0.9, 0);
    g_.SetOrigin(Phase::kBackward, layer_);
  }

  Value Convolve(const std::string& name, Value x, Value w, Value b,
                 int64_t filters, int64_t stride, double macs) {
    const Shape shape = {x.dim(0), Reduced(x.dim(1), stride),
                         Reduced(x.dim(2), stride), filters};
    const double flops = 2 * macs * Count(shape);
    const Value y = b.ok() ? Emit({x, w, b}, {shape}, flops + Count(shape))[0]
                           : Emit({x, w}, {shape}, flops)[0];
    OnBackward(name, y, [=, this](Value dy) {
      const Value dw = Emit({x, dy}, {w.shape()}, flops)[0];
      const Value db = b.ok() ? ReduceSum(dy, {0, 1, 2}) : Value();
      if (x.id() != image_.id()) {
        Contribute(x, Emit({w, dy}, {x.shape()}, flops)[0]);
      }
      Update(w, dw);
      if (b.ok()) Update(b, db);
    });
    return y;
  }

  GraphBuilder g_;
  Value image_, lr_, step_;
  std::vector<Layer> tape_;
  std::string layer_;  // whose gradients are being made
  std::map<ValueId, Value> gradients_;
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
  Value View(const std::string& name, Value x, const Shape& shape) override {
    return Layer(name, {x}, shape, 0);
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
  x = net.View("flatten", x, {batch, 7 * 7 * 512});
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
  constexpr int64_t kPixels = 208 * 304;
  return net.Finish(net.View("pixels", x, {batch * kPixels, kClasses}), false);
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
    x = bn_relu(dw,
                net.DepthwiseConv(
                    dw, x, {.kernel = 3, .stride = stride, .pad = stride - 1}));
    x = bn_relu(
        pw,
        net.Conv(pw, x, {.filters = filters, .kernel = 1, .has_bias = false}));
  }
  x = net.GlobalAveragePool("global_average_pooling", x);
  x = net.View("reshape_1", x, {batch, 1, 1, 1024});
  x = net.Drop("dropout", x, 1e-3);
  x = net.Conv("conv_preds", x, {.filters = 1000, .kernel = 1});
  return net.Finish(net.View("reshape_2", x, {batch, 1000}), false);
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
  const Rehearsal rehearsal(step, {});
  const RecomputeBound bound(step, rehearsal);
  constexpr int kEvery = 8;  // of the nodes, to save time
  for (NodeId n = 0; n < step.num_nodes(); ++n) {
    if (rehearsal.is_view(n)) continue;
    const Bytes free = budget - reserved - bound.Forced(n);
    if (free < 0) return false;
    if (n % kEvery != 0) continue;
    if (LeastCost(bound.Tradeoffs(n), free) > most) return false;
  }
  return true;
}

}  // namespace stowage::fit
