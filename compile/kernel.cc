#include "compile/kernel.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "base/result.h"

namespace stowage::compile {
namespace {

bool IsPlain(std::string_view expr) {
  return std::ranges::all_of(
      expr, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// Axes of one size that several tensors walk together.
struct Axis {
  int64_t size = 1;
  std::vector<int64_t> strides;  // of each tensor
};

// The axes of tensors of one shape, neighbours merged where all strides allow it.
std::vector<Axis> MergedAxes(std::span<const Tensor* const> tensors) {
  std::vector<Axis> axes;
  const Shape& shape = tensors.front()->shape();
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    Axis axis{shape[d], {}};
    for (const Tensor* tensor : tensors) {
      axis.strides.push_back(tensor->strides()[d]);
    }
    bool merges = !axes.empty();
    for (size_t t = 0; t < tensors.size() && merges; ++t) {
      merges = axes.back().strides[t] == axis.strides[t] * axis.size;
    }
    if (merges) axis.size *= axes.back().size;
    if (merges) axes.pop_back();
    axes.push_back(std::move(axis));
  }
  return axes;
}

}  // namespace

bool IsPartOfName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool Is16Bits(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

Expr Times(const Expr& a, int64_t b) {
  if (a == "0" || b == 0) return "0";
  if (b == 1) return a;
  return IsPlain(a) ? StrCat(a, " * ", b) : StrCat("(", a, ") * ", b);
}

Expr Plus(std::span<const Expr> terms) {
  Expr sum;
  for (const Expr& term : terms) {
    if (term == "0") continue;
    sum += (sum.empty() ? "" : " + ") + term;
  }
  return sum.empty() ? "0" : sum;
}

Expr Plus(std::initializer_list<Expr> terms) {
  return Plus(std::span(terms.begin(), terms.size()));
}

Expr Tensor::At(std::span<const Expr> index) const {
  STOWAGE_CHECK(static_cast<int>(index.size()) == shape().rank());
  std::vector<Expr> terms;
  for (size_t d = 0; d < index.size(); ++d) {
    terms.push_back(Times(index[d], strides_[static_cast<int>(d)]));
  }
  return Plus(terms);
}

Expr Tensor::At(std::initializer_list<Expr> index) const {
  return At(std::span(index.begin(), index.size()));
}

std::string_view CType(DType dtype) {
  return dtype == DType::kBool ? "u8" : DTypeName(dtype);
}

Kernel::Kernel(const Graph& graph, const Node& node, const Layouts* layouts,
               KernelForm form)
    : node_(node),
      real_(DType::kF32),
      lanes_(form.simd == 0 ? 1 : form.simd / SizeOf(DType::kF32)) {
  const auto add = [&](ValueId id, const std::string& name,
                       std::vector<Tensor>* to) {
    TensorType type = graph.value(id).type;
    if (form.is_widened && Is16Bits(type.dtype)) {
      type.dtype = DType::kF32;
      to->emplace_back(name, type, ContiguousStrides(type.shape));
      return;
    }
    to->emplace_back(name, type,
                     layouts == nullptr
                         ? ContiguousStrides(type.shape)
                         : (*layouts)[static_cast<size_t>(id)].strides);
    if (type.dtype == DType::kF64) real_ = DType::kF64;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    add(node.inputs[i], StrCat("x", i), &inputs_);
  }
  for (size_t r = 0; r < node.results.size(); ++r) {
    add(node.results[r], StrCat("y", r), &outputs_);
  }
}

Expr Kernel::Real(double value) const {
  // The macros are floats.
  const std::string_view open = real_ == DType::kF64 ? "((double)" : "(";
  if (std::isnan(value)) return StrCat(open, "NAN)");
  if (std::isinf(value)) {
    return StrCat(value > 0 ? "" : "(-", open, "INFINITY)",
                  value > 0 ? "" : ")");
  }
  std::string text =
      real_ == DType::kF32
          ? StrCat(static_cast<double>(static_cast<float>(value)))
          : StrCat(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += "@";
  return value < 0 || std::signbit(value) ? StrCat("(", text, ")") : text;
}

void Kernel::AddLine(std::string_view line) {
  text_.append(static_cast<size_t>(depth_) * 2, ' ');
  if (width_ > 1) {
    text_ += ForVectorType(line, width_);
  } else {
    text_ += line;
  }
  text_ += '\n';
}

std::string Kernel::Fresh(std::string_view name) {
  auto [at, is_new] = names_.try_emplace(std::string(name), 0);
  return is_new ? at->first : StrCat(name, "_", ++at->second);
}

Expr Kernel::Array(std::string_view name,
                   std::initializer_list<int64_t> sizes) {
  const Expr array = Fresh(name);
  Bytes bytes = SizeOf(real_);
  std::string dimensions, zeros = "0";
  for (const int64_t size : sizes) {
    bytes *= size;
    dimensions += StrCat("[", size, "]");
    zeros = StrCat("{", zeros, "}");
  }
  Line("real ", array, dimensions, " = ", zeros, ";");
  stack_ += bytes;
  return array;
}

void Kernel::For(std::string_view name, int64_t count,
                 const std::function<void(const Expr&)>& body) {
  if (count == 1) return body("0");
  const auto outside = names_;
  const std::string variable = Fresh(name);
  Block(StrCat("for (dim_t ", variable, " = 0; ", variable, " < ", count,
               "; ++", variable, ")"),
        [&] { body(variable); });
  names_ = outside;
}

void Kernel::ForEach(const Shape& shape,
                     const std::function<void(const Index&)>& body) {
  Index index;
  const std::function<void(int)> nest = [&](int axis) {
    if (axis == shape.rank()) return body(index);
    For(StrCat("i", axis), shape[axis], [&](const Expr& i) {
      index.push_back(i);
      nest(axis + 1);
      index.pop_back();
    });
  };
  nest(0);
}

void Kernel::ForElements(
    std::span<const Tensor* const> tensors,
    const std::function<void(std::span<const Expr>)>& body) {
  const std::vector<Axis> axes = MergedAxes(tensors);
  std::vector<std::vector<Expr>> terms(tensors.size());
  const std::function<void(size_t)> nest = [&](size_t a) {
    if (a == axes.size()) {
      std::vector<Expr> at;
      for (const auto& sum : terms) at.push_back(Plus(sum));
      return body(at);
    }
    const auto of_axis = [&](const Expr& i) {
      for (size_t t = 0; t < tensors.size(); ++t) {
        terms[t].push_back(Times(i, axes[a].strides[t]));
      }
      nest(a + 1);
      for (auto& sum : terms) sum.pop_back();
    };
    const bool is_row = a + 1 == axes.size() &&
                        std::ranges::all_of(axes[a].strides, [](int64_t s) {
                          return s == 0 || s == 1;
                        });
    is_row ? ForVectors("i", axes[a].size, of_axis)
           : For("i", axes[a].size, of_axis);
  };
  nest(0);
}

void Kernel::Block(std::string_view head, const std::function<void()>& body) {
  AddLine(StrCat(head, head.empty() ? "{" : " {"));
  ++depth_;
  const auto outside = names_;
  body();
  names_ = outside;  // those of the block may be used again behind it
  --depth_;
  AddLine("}");
}

Tensor Kernel::Scratch(int64_t first, const Shape& shape) const {
  return {
      first == 0 ? Expr(kScratch) : StrCat("(", kScratch, " + ", first, ")"),
      {real_, shape},
      ContiguousStrides(shape)};
}

Expr Kernel::Load(const Tensor& tensor, const Expr& at) {
  if (width_ > 1) {
    if (tensor.dtype() != DType::kF32) RefuseVectors();
    return along_.empty() || Mentions(at, along_)
               ? StrCat("load@(", tensor.name(), " + ", at, ")")
               : StrCat("splat@(", tensor.name(), "[", at, "])");
  }
  const Expr element = StrCat(tensor.name(), "[", at, "]");
  switch (tensor.dtype()) {
    case DType::kF32:
      return real_ == DType::kF64 ? StrCat("(double)", element) : element;
    case DType::kF16:
      return StrCat(real_ == DType::kF64 ? "(double)" : "", "half_to_float(",
                    element, ")");
    case DType::kBF16:
      return StrCat(real_ == DType::kF64 ? "(double)" : "",
                    "bfloat16_to_float(", element, ")");
    default:
      return element;
  }
}

Expr Kernel::LoadReal(const Tensor& tensor, const Expr& at) {
  if (IsFloat(tensor.dtype())) return Load(tensor, at);
  return StrCat("(real)", Load(tensor, at));
}

void Kernel::Store(const Tensor& tensor, const Expr& at, const Expr& value) {
  if (width_ > 1) {
    if (tensor.dtype() != DType::kF32) RefuseVectors();
    return Line("store@(", tensor.name(), " + ", at, ", ", value, ");");
  }
  const Expr element = StrCat(tensor.name(), "[", at, "]");
  switch (tensor.dtype()) {
    case DType::kF32:
      return real_ == DType::kF64 ? Line(element, " = (float)(", value, ");")
                                  : Line(element, " = ", value, ";");
    case DType::kF16:
    case DType::kBF16: {
      // A double is rounded twice; the first rounding keeps what the second one needs.
      const std::string_view open =
          real_ == DType::kF64 ? "(round_to_odd(" : "(";
      return Line(
          element, " = ",
          tensor.dtype() == DType::kF16 ? "float_to_half" : "float_to_bfloat16",
          open, value, real_ == DType::kF64 ? "));" : ");");
    }
    case DType::kF64:
    case DType::kI32:
    case DType::kI64:
      return Line(element, " = ", value, ";");
    default:
      return Line(element, " = (", CType(tensor.dtype()), ")(", value, ");");
  }
}

void Kernel::Clear(const Tensor& tensor) {
  Line("memset(", tensor.name(), ", 0, ",
       tensor.size() * SizeOf(tensor.dtype()), ");");
}

Expr Kernel::LoadIndex(const Tensor& tensor, const Expr& at, int64_t limit) {
  const Expr index = Fresh("index");
  const Expr given = Fresh("given");
  Line("const int64_t ", given, " = (int64_t)", tensor.name(), "[", at, "];");
  Line("if (", given, " < 0 || ", given, " >= ", limit,
       ") return INDEX_OUT_OF_RANGE;");
  Line("const dim_t ", index, " = (dim_t)", given, ";");
  can_fail_ = true;
  return index;
}

void Kernel::Call(const Expr& call, bool can_fail) {
  if (!can_fail) return Line(call, ";");
  const Expr status = Fresh("status");
  Line("const int ", status, " = ", call, ";");
  Line("if (", status, " != 0) return ", status, ";");
  can_fail_ = true;
}

std::vector<std::string> Kernel::UsedParameters() const {
  std::vector<std::string> used;
  for (const auto* const tensors : {&inputs_, &outputs_}) {
    for (const Tensor& tensor : *tensors) {
      if (Mentions(text_, tensor.name())) used.push_back(tensor.name());
    }
  }
  if (Mentions(text_, kScratch)) used.emplace_back(kScratch);
  return used;
}

std::string Kernel::Parameters() const {
  std::string list;
  const auto add = [&](std::string_view type, std::string_view name) {
    if (!Mentions(text_, name)) return;
    list += StrCat(list.empty() ? "" : ", ", type, " *", name);
  };
  for (const Tensor& x : inputs_) {
    add(StrCat("const ", CType(x.dtype())), x.name());
  }
  for (const Tensor& y : outputs_) add(CType(y.dtype()), y.name());
  add(CType(real_), kScratch);
  return list;
}

std::string Kernel::Body() const {
  std::string body = ForType(text_, real_);
  if (can_fail_) body += "  return 0;\n";
  return body;
}

namespace {

// Replaces `real` by `type`, and `@` by `function` before a parenthesis, else by `literal`.
std::string Replaced(std::string_view text, std::string_view type,
                     std::string_view function, std::string_view literal) {
  constexpr std::string_view kReal = "real";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '@') {
      result += text.substr(i + 1).starts_with('(') ? function : literal;
      continue;
    }
    const bool begins = i == 0 || !IsPartOfName(text[i - 1]);
    if (begins && text.substr(i).starts_with(kReal) &&
        (i + kReal.size() == text.size() ||
         !IsPartOfName(text[i + kReal.size()]))) {
      result += type;
      i += kReal.size() - 1;
      continue;
    }
    result += text[i];
  }
  return result;
}

// Calls of math.h whose last bit differs between processors' libraries become calls of the
// file's own functions (compile/helpers.cc).
std::string WithOwnFunctions(std::string text) {
  for (const std::string_view name : {"exp", "log", "tanh"}) {
    const std::string call = StrCat(name, "f("), own = StrCat(name, "_f32(");
    for (size_t at = text.find(call); at != std::string::npos;
         at = text.find(call, at + 1)) {
      if (at > 0 && IsPartOfName(text[at - 1])) continue;
      text.replace(at, call.size(), own);
    }
  }
  return text;
}

}  // namespace

std::string ForType(std::string_view text, DType type) {
  return type == DType::kF64
             ? Replaced(text, "double", "", "")
             : WithOwnFunctions(Replaced(text, "float", "f", "f"));
}

std::string ForVectorType(std::string_view text, int64_t lanes) {
  return Replaced(text, StrCat("f32x", lanes), StrCat("_x", lanes), "f");
}

bool Mentions(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !IsPartOfName(text[at - 1])) &&
        (end == text.size() || !IsPartOfName(text[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace stowage::compile
