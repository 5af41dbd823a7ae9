#include "tests/onnx/mobilenet.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/strings.h"
#include "onnx/onnx.pb.h"
#include "tests/support/random_graph.h"

namespace stowage::testing {
namespace {

using onnx::pb::AttributeProto;
using onnx::pb::NodeProto;
using onnx::pb::TensorProto;

// _make_divisible of torchvision: the nearest multiple of 8, no less than 0.9 of `channels`.
int64_t Channels(double channels) {
  const int64_t rounded =
      std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + 8 : rounded;
}

class Writer {
 public:
  explicit Writer(const MobileNetSizes& sizes) : sizes_(sizes) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(18);
    auto* const x = graph().add_input();
    x->set_name("x");
    auto* const type = x->mutable_type()->mutable_tensor_type();
    type->set_elem_type(TensorProto::FLOAT);
    for (const int64_t dim : {int64_t{1}, int64_t{3}, sizes.side, sizes.side}) {
      type->mutable_shape()->add_dim()->set_dim_value(dim);
    }
    AddWeight("lowest", {}, 0, 0);
    AddWeight("highest", {}, 6, 6);
  }

  std::string Write() {
    struct Stage {
      int64_t expansion, channels, blocks, stride;
    };
    Conv("features.0.0", Channels(32 * sizes_.width), 3, 2, false);
    Clip();
    int block = 1;
    for (const Stage& stage : std::vector<Stage>{{1, 16, 1, 1},
                                                 {6, 24, 2, 2},
                                                 {6, 32, 3, 2},
                                                 {6, 64, 4, 2},
                                                 {6, 96, 3, 1},
                                                 {6, 160, 3, 2},
                                                 {6, 320, 1, 1}}) {
      for (int64_t i = 0; i < stage.blocks; ++i) {
        Block(StrCat("features.", block++, ".conv."), stage.expansion,
              Channels(static_cast<double>(stage.channels) * sizes_.width),
              i == 0 ? stage.stride : 1);
      }
    }
    constexpr int64_t kLast = 1280;  // no fewer for a width below 1
    Conv("features.18.0", kLast, 1, 1, false);
    Clip();
    Add("GlobalAveragePool", {top_}, "mean");
    Add("Flatten", {"mean"}, "rows");
    constexpr double bound = 0.01;
    AddWeight("classifier.1.weight", {sizes_.classes, kLast}, -bound, bound);
    AddWeight("classifier.1.bias", {sizes_.classes}, -bound, bound);
    SetInt(Add("Gemm", {"rows", "classifier.1.weight", "classifier.1.bias"},
               "logits"),
           "transB", 1);
    graph().add_output()->set_name("logits");
    return model_.SerializeAsString();
  }

 private:
  onnx::pb::GraphProto& graph() { return *model_.mutable_graph(); }

  NodeProto& Add(const std::string& op,
                 const std::vector<std::string>& operands,
                 const std::string& result) {
    NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name(StrCat(op, "_", result));
    for (const std::string& name : operands) node.add_input(name);
    node.add_output(result);
    return node;
  }

  static AttributeProto& Attribute(NodeProto& node, const std::string& name,
                                   AttributeProto::AttributeType type) {
    AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  static void SetInt(NodeProto& node, const std::string& name, int64_t value) {
    Attribute(node, name, AttributeProto::INT).set_i(value);
  }
  static void SetInts(NodeProto& node, const std::string& name,
                      const std::vector<int64_t>& values) {
    AttributeProto& ints = Attribute(node, name, AttributeProto::INTS);
    for (const int64_t value : values) ints.add_ints(value);
  }

  // Numbers in [low, high).
  void AddWeight(const std::string& name, const std::vector<int64_t>& dims,
                 double low, double high) {
    TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(TensorProto::FLOAT);
    int64_t count = 1;
    for (const int64_t dim : dims) {
      tensor.add_dims(dim);
      count *= dim;
    }
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<float>(rng_.Uniform(low, high)));
    }
    tensor.set_raw_data(
        std::string(reinterpret_cast<const char*>(numbers.data()),
                    numbers.size() * sizeof(float)));
  }

  // `gain` is 2 before an activation, which halves the second moment.
  void Conv(const std::string& name, int64_t channels, int64_t size,
            int64_t stride, bool is_depthwise, double gain = 2) {
    const int64_t inputs = is_depthwise ? 1 : channels_;
    const double bound =
        std::sqrt(3 * gain / static_cast<double>(inputs * size * size));
    AddWeight(name + ".weight", {channels, inputs, size, size}, -bound, bound);
    AddWeight(name + ".bias", {channels}, -0.1, 0.1);
    NodeProto& node =
        Add("Conv", {top_, name + ".weight", name + ".bias"}, name);
    SetInts(node, "kernel_shape", {size, size});
    SetInts(node, "strides", {stride, stride});
    SetInts(node, "pads", std::vector<int64_t>(4, size / 2));
    SetInt(node, "group", is_depthwise ? channels : 1);
    top_ = name;
    channels_ = channels;
  }

  void Clip() {
    const std::string result = top_ + ".relu6";
    Add("Clip", {top_, "lowest", "highest"}, result);
    top_ = result;
  }

  void Block(const std::string& name, int64_t expansion, int64_t channels,
             int64_t stride) {
    const std::string input = top_;
    const bool is_residual = stride == 1 && channels == channels_;
    int layer = 0;
    if (expansion > 1) {
      Conv(StrCat(name, layer++, ".0"), channels_ * expansion, 1, 1, false);
      Clip();
    }
    Conv(StrCat(name, layer++, ".0"), channels_, 3, stride, true);
    Clip();
    Conv(StrCat(name, layer), channels, 1, 1, false, /*gain=*/1);
    if (!is_residual) return;
    Add("Add", {input, top_}, name + "add");
    top_ = name + "add";
  }

  const MobileNetSizes sizes_;
  onnx::pb::ModelProto model_;
  Rng rng_{1};
  std::string top_ = "x";
  int64_t channels_ = 3;
};

}  // namespace

std::string MobileNetV2(const MobileNetSizes& sizes) {
  return Writer(sizes).Write();
}

}  // namespace stowage::testing
