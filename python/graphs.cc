#include "python/graphs.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "python/arrays.h"
#include "python/errors.h"

namespace stowage::python {
namespace {

namespace py = pybind11;
using Shared = std::shared_ptr<Builder>;

// A handle and its builder.
struct Handle {
  Shared builder;
  Value value;
};

// The builder's source, or the calling line of Python, outside of this package.
SourceLoc Here(const Shared& builder) {
  if (builder->source().is_known()) return builder->source();
  py::object frame = py::reinterpret_borrow<py::object>(
      reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(
        reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    const auto file = code.attr("co_filename").cast<std::string>();
    if (!file.ends_with("/stowage/ops.py") &&
        file.find("/stowage/_") == std::string::npos) {
      return KeptSourceLoc(file, PyFrame_GetLineNumber(raw));
    }
    frame = py::reinterpret_steal<py::object>(
        reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return {};
}

Shape ToShape(const std::vector<int64_t>& dims) {
  if (dims.size() > kMaxRank) {
    Raise("InvalidArgument",
          StrCat("[shape] ", dims.size(), " dimensions; expected at most ",
                 kMaxRank));
  }
  return Shape(std::span<const int64_t>(dims));
}

Handle Checked(const Shared& builder, Value value) {
  builder->Check();
  return {builder, value};
}

Init ParseInit(const std::string& kind, double scale) {
  if (kind == "zeros") return Init::Zeros();
  if (kind == "ones") return Init::Ones();
  if (kind == "normal") return Init::Normal(scale);
  if (kind == "uniform") return Init::Uniform(scale);
  if (kind == "truncated_normal") return Init::TruncatedNormal(scale);
  if (kind == "orthogonal") return Init::Orthogonal(scale);
  Raise("InvalidArgument",
        StrCat("[init] there is no kind ", Quoted(kind),
               "; expected zeros, ones, normal, uniform, truncated_normal or "
               "orthogonal"));
}

Value Operand(const Shared& builder, const Handle& handle) {
  if (handle.builder == builder) return handle.value;
  Raise("InvalidArgument",
        "[graph] a value of one graph is an operand in another");
}

AttrValue ToAttr(const std::string& name, const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return int64_t{value.cast<bool>()};
  if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) {
    return ValueOf(ParseDType(value.cast<std::string>()));
  }
  if (py::isinstance<py::bytes>(value)) return value.cast<std::string>();
  if (py::isinstance<py::sequence>(value)) {
    return value.cast<std::vector<int64_t>>();
  }
  throw py::type_error(
      StrCat("[graph] attribute ", Quoted(name), " is a ",
             Py_TYPE(value.ptr())->tp_name,
             "; expected a number, a name of a type, or a list of integers"));
}

std::vector<Handle> Emit(const Shared& builder, const std::string& op,
                         const std::vector<Handle>& operands,
                         const py::dict& attributes) {
  const std::optional<OpKind> kind = FindOp(op);
  if (!kind) Raise("NotFound", StrCat("[graph] there is no op ", Quoted(op)));
  std::vector<Value> inputs;
  for (const Handle& handle : operands) {
    inputs.push_back(Operand(builder, handle));
  }
  Attrs attrs;
  for (const auto& [name, value] : attributes) {
    attrs.Set(name.cast<std::string>(),
              ToAttr(name.cast<std::string>(), value));
  }
  std::vector<Handle> results;
  for (const Value value :
       builder->Open().Emit(*kind, inputs, std::move(attrs), Here(builder))) {
    results.push_back({builder, value});
  }
  builder->Check();
  return results;
}

// Broadcasts both operands by NumPy's rules.
std::pair<Handle, Handle> Broadcast(const Handle& a, const Handle& b) {
  const Shape& one = a.value.shape();
  const Shape& other = Operand(a.builder, b).shape();
  Shape common;
  const int rank = std::max(one.rank(), other.rank());
  const auto dim = [&](const Shape& shape, int axis) {
    const int at = axis - (rank - shape.rank());
    return at < 0 ? 1 : shape[at];
  };
  for (int axis = 0; axis < rank; ++axis) {
    common.push_back(std::max(dim(one, axis), dim(other, axis)));
  }
  const auto spread = [&](const Handle& handle) {
    a.builder->Open();
    return handle.value.shape() == common
               ? handle
               : Checked(a.builder,
                         BroadcastTo(handle.value, common, Here(a.builder)));
  };
  return {spread(a), spread(b)};
}

}  // namespace

GraphBuilder& Builder::Open() {
  if (is_open_) return builder_;
  Raise("InvalidArgument",
        "[graph] the graph is finished; a value of it can be used no more");
}

void Builder::Check() {
  if (Open().error()) Raise(*builder_.error());
}

Result<Graph> Builder::Finish() {
  is_open_ = false;
  return builder_.Finish();
}

void BindGraphs(py::module_& module) {
  py::class_<Handle>(module, "Value",
                     "A tensor of a graph that is being built. It ends with "
                     "the function that\n"
                     "builds it, after which it raises InvalidArgument.")
      .def_property_readonly(
          "shape",
          [](const Handle& handle) {
            handle.builder->Open();
            py::list dims;
            for (const int64_t dim : handle.value.shape()) {
              dims.append(dim);
            }
            return py::tuple(dims);
          },
          "Its dimensions, a tuple.")
      .def_property_readonly(
          "dtype",
          [](const Handle& handle) {
            handle.builder->Open();
            return std::string(DTypeName(handle.value.dtype()));
          },
          "The type of its elements: \"f32\", \"bf16\", \"i32\", ...")
      .def_property_readonly(
          "name",
          [](const Handle& handle) {
            return handle.builder->Open().info(handle.value).name;
          },
          "What it is called in reports.")
      .def_property_readonly(
          "builder", [](const Handle& handle) { return handle.builder; },
          "The GraphBuilder that it is of.");
  py::class_<Builder, Shared>(
      module, "GraphBuilder",
      "What a function that builds a model gets, with the number of examples.\n"
      "No two of its values have one name. A mistake raises InvalidArgument\n"
      "in its line. Between inputs and outputs are functions of stowage.ops.")
      .def(
          "input",
          [](const Shared& self, const std::string& name,
             const std::string& dtype, const std::vector<int64_t>& shape) {
            return Checked(self,
                           self->Open().Input(name, ValueOf(ParseDType(dtype)),
                                              ToShape(shape), Here(self)));
          },
          py::arg("name"), py::arg("dtype"), py::arg("shape"),
          "What a step is given: an array of this type and shape. One whose\n"
          "examples are taken in micro-batches has them along its first axis.")
      .def(
          "param",
          [](const Shared& self, const std::string& name,
             const std::string& dtype, const std::vector<int64_t>& shape,
             const std::string& init, double scale) {
            return Checked(
                self, self->Open().Param(name, ValueOf(ParseDType(dtype)),
                                         ToShape(shape), ParseInit(init, scale),
                                         Here(self)));
          },
          py::arg("name"), py::arg("dtype"), py::arg("shape"),
          py::arg("init") = "zeros", py::arg("scale") = 1.0,
          "What is trained. It begins as `init` says: \"zeros\", \"ones\", or\n"
          "drawn, as \"normal\" or \"truncated_normal\" of the deviation "
          "`scale`,\n"
          "\"uniform\" from -`scale` to `scale`, or \"orthogonal\" times "
          "`scale`.")
      .def(
          "state",
          [](const Shared& self, const std::string& name,
             const std::string& dtype, const std::vector<int64_t>& shape) {
            return Checked(
                self,
                self->Open().State(name, ValueOf(ParseDType(dtype)),
                                   ToShape(shape), Init::Zeros(), Here(self)));
          },
          py::arg("name"), py::arg("dtype"), py::arg("shape"),
          "What is kept from step to step and not trained, as the statistics "
          "of\n"
          "a batch norm. It begins as zeros.")
      .def(
          "constant",
          [](const Shared& self, const py::object& array) {
            const ArrayView view(array, "constant");
            return Checked(
                self, Constant(self->Open(), view.type().dtype,
                               view.type().shape, view.data(), Here(self)));
          },
          py::arg("array"), "A value that is the array's in every step.")
      .def(
          "name",
          [](const Shared& self, const std::string& name, const Handle& value) {
            return Checked(self, self->Open().Name(name, Operand(self, value),
                                                   Here(self)));
          },
          py::arg("name"), py::arg("value"),
          "The same value by this name, for reports, and for `recompute_keep` "
          "and\n"
          "`recompute_always` of a plan.")
      .def(
          "output",
          [](const Shared& self, const std::string& name, const Handle& value) {
            self->Open().Output(name, Operand(self, value), Here(self));
            self->Check();
          },
          py::arg("name"), py::arg("value"),
          "What the graph is for. A training step has a scalar \"loss\".")
      .def(
          "_set_source",
          [](const Shared& self, const std::string& file, int line) {
            self->SetSource(file.empty() ? SourceLoc()
                                         : KeptSourceLoc(file, line));
          },
          py::arg("file"), py::arg("line"))
      .def("emit", &Emit, py::arg("op"), py::arg("operands"),
           py::arg("attributes"),
           "The results of an op by its name in docs/reference/ops.md, with "
           "all of its\n"
           "attributes, as the functions of stowage.ops call it.");
  module.def("broadcast", &Broadcast, py::arg("a"), py::arg("b"));
}

}  // namespace stowage::python
