#include "onnx/parse_model.h"

#include <google/protobuf/io/zero_copy_stream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/strings.h"
#include "onnx/ops.h"

namespace stowage::onnx {

namespace {

// Protobuf's limit.
constexpr size_t kMaxModelBytes = 2'147'483'647;
// Exported models take 2 to 8 times their file's size, less with internal weights; nodes with
// short names take 15 times theirs.
constexpr uint64_t kMaxTimes = 32;
constexpr uint64_t kBeside = uint64_t{1} << 20;
constexpr uint64_t kMaxMessages = uint64_t{1} << 30;
// The number of parsed bytes between comparisons of memory with the limit.
constexpr size_t kStride = 4096;

// A stream of the file that ends early once `arena` exceeds `limit`.
class LimitedStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  LimitedStream(std::string_view bytes, const google::protobuf::Arena& arena,
                uint64_t limit)
      : bytes_(bytes), arena_(arena), limit_(limit) {}

  bool exceeded() const { return arena_.SpaceAllocated() > limit_; }

  bool Next(const void** data, int* size) override {
    if (at_ == bytes_.size() || exceeded()) return false;
    const size_t count = std::min(bytes_.size() - at_, kStride);
    *data = bytes_.data() + at_;
    *size = static_cast<int>(count);
    at_ += count;
    return true;
  }
  void BackUp(int count) override { at_ -= static_cast<size_t>(count); }
  bool Skip(int count) override {
    const size_t left = bytes_.size() - at_;
    at_ += std::min(left, static_cast<size_t>(count));
    return static_cast<size_t>(count) <= left;
  }
  int64_t ByteCount() const override { return static_cast<int64_t>(at_); }

 private:
  const std::string_view bytes_;
  const google::protobuf::Arena& arena_;
  const uint64_t limit_;
  size_t at_ = 0;
};

Error WrongFile(const std::string& path, size_t size, std::string_view what) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[onnx] ", Quoted(path), ", ", size, " bytes, ", what)};
}

}  // namespace

Result<pb::ModelProto*> ParseModel(std::string_view bytes,
                                   const std::string& path,
                                   google::protobuf::Arena* arena) {
  const uint64_t limit =
      std::min(kBeside + kMaxTimes * bytes.size(), kMaxMessages);
  LimitedStream stream(bytes, *arena, limit);
  pb::ModelProto* const model = pb::ModelProto::default_instance().New(arena);
  const bool is_whole =
      bytes.size() <= kMaxModelBytes && model->ParseFromZeroCopyStream(&stream);
  if (stream.exceeded()) {
    return WrongFile(
        path, bytes.size(),
        StrCat("holds messages that take more than ", limit,
               " bytes of memory; expected at most that of an ONNX "
               "model of this size"));
  }
  if (!is_whole) {
    return WrongFile(path, bytes.size(), "is no ONNX file or ends early");
  }
  return model;
}

namespace {

// The attribute of the call or the default that a reference means; null if neither exists.
const pb::AttributeProto* Meant(const std::string& name,
                                const pb::NodeProto& call,
                                const pb::FunctionProto& function) {
  for (const auto* const list :
       {&call.attribute(), &function.attribute_proto()}) {
    for (const pb::AttributeProto& attribute : *list) {
      if (attribute.name() == name) return &attribute;
    }
  }
  return nullptr;
}

void FillIn(const pb::NodeProto& call, const pb::FunctionProto& function,
            pb::NodeProto* node) {
  for (int i = node->attribute_size(); i-- > 0;) {
    pb::AttributeProto* const attribute = node->mutable_attribute(i);
    if (attribute->ref_attr_name().empty()) {
      if (!attribute->has_g()) continue;
      for (pb::NodeProto& inner : *attribute->mutable_g()->mutable_node()) {
        FillIn(call, function, &inner);
      }
      continue;
    }
    const pb::AttributeProto* const meant =
        Meant(attribute->ref_attr_name(), call, function);
    if (!meant) {
      node->mutable_attribute()->DeleteSubrange(i, 1);
      continue;
    }
    const std::string name = attribute->name();
    attribute->CopyFrom(*meant);
    attribute->set_name(name);
  }
}

// Counts the nodes of each function once.
class NodeCounter {
 public:
  NodeCounter(const FunctionTable& functions, int64_t most)
      : functions_(functions), most_(most) {}

  /// Null if no function is recursive.
  const pb::FunctionProto* recursive() const { return recursive_; }

  int64_t Count(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
                size_t depth) {
    int64_t count = 0;
    for (const pb::NodeProto& node : nodes) {
      count = std::min(most_, count + CountOf(node, depth));
    }
    return count;
  }

 private:
  int64_t CountOf(const pb::NodeProto& node, size_t depth) {
    if (const pb::FunctionProto* const function = functions_.Find(node)) {
      if (depth == 0) return 1;
      const auto [counted, is_new] = counts_.emplace(function, kBeingCounted);
      if (counted->second == kBeingCounted && !is_new) {
        recursive_ = function;
        return 1;
      }
      if (!is_new) return counted->second;
      const int64_t count = 1 + Count(function->node(), depth - 1);
      counts_[function] = count;
      return count;
    }
    int64_t count = 1;
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count += Count(attribute.g().node(), depth);
    }
    return count;
  }

  static constexpr int64_t kBeingCounted = 0;

  const FunctionTable& functions_;
  const int64_t most_;
  std::unordered_map<const pb::FunctionProto*, int64_t> counts_;
  const pb::FunctionProto* recursive_ = nullptr;
};

}  // namespace

FunctionTable::WrittenOut FunctionTable::CountWrittenOut(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    int64_t most, size_t depth) const {
  NodeCounter counter(*this, most);
  const int64_t count = counter.Count(nodes, depth);
  return {count, counter.recursive()};
}

FunctionTable::FunctionTable(const pb::ModelProto& model) {
  for (const pb::FunctionProto& function : model.functions()) {
    functions_[{function.domain(), function.name(), function.overload()}] =
        &function;
  }
}

const pb::FunctionProto* FunctionTable::Find(const pb::NodeProto& node) const {
  const auto found =
      functions_.find({node.domain(), node.op_type(), node.overload()});
  return found == functions_.end() ? nullptr : found->second;
}

google::protobuf::RepeatedPtrField<pb::NodeProto> BodyOf(
    const pb::NodeProto& call, const pb::FunctionProto& function) {
  google::protobuf::RepeatedPtrField<pb::NodeProto> body = function.node();
  const auto is_left_out = [&](const std::string& name) {
    for (int i = 0; i < function.input_size(); ++i) {
      if (function.input(i) != name) continue;
      return i >= call.input_size() || call.input(i).empty();
    }
    return false;
  };
  for (pb::NodeProto& node : body) {
    FillIn(call, function, &node);
    for (std::string& name : *node.mutable_input()) {
      if (is_left_out(name)) name.clear();
    }
  }
  return body;
}

namespace {

using Names = std::unordered_set<std::string_view>;

// Every name in a subgraph may be a value from outside.
void AddNames(const pb::GraphProto& graph, Names* names);

void AddNames(const pb::NodeProto& node, Names* names) {
  names->insert(node.input().begin(), node.input().end());
  for (const pb::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) AddNames(attribute.g(), names);
  }
}

void AddNames(const pb::GraphProto& graph, Names* names) {
  for (const pb::NodeProto& node : graph.node()) AddNames(node, names);
  for (const pb::ValueInfoProto& output : graph.output()) {
    names->insert(output.name());
  }
}

}  // namespace

std::vector<bool> NodesFor(
    const std::string& value,
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
  Names names = {value};
  std::vector<bool> needed(static_cast<size_t>(nodes.size()), false);
  for (int i = nodes.size(); i-- > 0;) {
    const pb::NodeProto& node = nodes.Get(i);
    for (const std::string& result : node.output()) {
      if (names.contains(result)) needed[static_cast<size_t>(i)] = true;
    }
    if (needed[static_cast<size_t>(i)]) AddNames(node, &names);
  }
  return needed;
}

std::unordered_set<std::string_view> ReadBy(
    const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
    const std::vector<bool>& needed) {
  Names names;
  for (int i = 0; i < nodes.size(); ++i) {
    if (needed[static_cast<size_t>(i)]) AddNames(nodes.Get(i), &names);
  }
  return names;
}

std::unordered_set<std::string_view> ReadIn(const pb::ModelProto& model) {
  Names names;
  AddNames(model.graph(), &names);
  for (const pb::FunctionProto& function : model.functions()) {
    for (const pb::NodeProto& node : function.node()) AddNames(node, &names);
    names.insert(function.output().begin(), function.output().end());
  }
  return names;
}

bool IsOnnxDomain(std::string_view domain) {
  return domain.empty() || domain == "ai.onnx";
}

Opsets OpsetsOf(
    const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports) {
  Opsets opsets;
  for (const pb::OperatorSetIdProto& import : imports) {
    opsets[IsOnnxDomain(import.domain()) ? "" : import.domain()] =
        import.version();
  }
  return opsets;
}

Status CheckOpset(const Opsets& opsets) {
  const auto found = opsets.find("");
  if (found == opsets.end() ||
      (found->second >= kOldestOpset && found->second <= kNewestOpset)) {
    return {};
  }
  return Error{
      ErrorCode::kUnsupported,
      StrCat("[onnx] the file asks for operator set ", found->second, "; ",
             kOldestOpset, " to ", kNewestOpset, " are supported")};
}

namespace {

template <typename Nodes>
void Count(const Nodes& nodes, const Opsets& opsets,
           const FunctionTable& functions, MissingOps* missing) {
  for (const pb::NodeProto& node : nodes) {
    if (const std::string name = MissingName(node, opsets, functions);
        !name.empty()) {
      ++(*missing)[name];
      continue;
    }
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) {
        Count(attribute.g().node(), opsets, functions, missing);
      }
    }
  }
}

}  // namespace

std::string MissingName(const pb::NodeProto& node, const Opsets& opsets,
                        const FunctionTable& functions) {
  if (functions.Find(node)) return "";
  if (!IsOnnxDomain(node.domain())) {
    return StrCat(node.domain(), ".", node.op_type());
  }
  const ImportedOp* const op = FindOp(node.domain(), node.op_type());
  if (!op) {
    return node.op_type().empty() ? "an op without a name" : node.op_type();
  }
  const auto version = opsets.find("");
  if (version == opsets.end()) return "";
  const bool known = version->second >= op->since &&
                     (op->changed == 0 || version->second < op->changed);
  if (known) return "";
  const int64_t asked =
      version->second < op->since ? version->second : op->changed;
  return StrCat(node.op_type(), " of operator set ", asked);
}

MissingOps FindMissingOps(const pb::ModelProto& model,
                          const FunctionTable& functions) {
  MissingOps missing;
  Count(model.graph().node(), OpsetsOf(model.opset_import()), functions,
        &missing);
  for (const pb::FunctionProto& function : model.functions()) {
    Count(function.node(), OpsetsOf(function.opset_import()), functions,
          &missing);
  }
  return missing;
}

std::string ToText(const MissingOps& missing) {
  std::string text;
  for (const auto& [name, count] : missing) {
    text += StrCat(text.empty() ? "" : ", ", name, " (", count,
                   count == 1 ? " node)" : " nodes)");
  }
  return text;
}

}  // namespace stowage::onnx
