#include "text/jinja.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/strings.h"
#include "text/jinja_parser.h"
#include "text/jinja_value.h"

namespace stowage::jinja {

namespace {

constexpr int64_t kMaxRenderSteps = 1 << 22;
constexpr int64_t kMaxBytes = 1 << 26;
constexpr int64_t kMaxCopies = 1024;
constexpr int64_t kItemBytes = 64;      // charged per item of a new list
constexpr int kMaxCalls = 16;           // nested calls of macros
constexpr int64_t kMaxRange = 100'000;  // the limit of Jinja's sandbox

enum class Flow { kNext, kBreak, kContinue };

// The variables of a block, in which those of `parent` are visible.
struct Scope {
  std::vector<std::pair<std::string, Value>> variables = {};
  const Scope* parent = nullptr;

  void Set(std::string_view name, Value value) {
    for (auto& [known, old] : variables) {
      if (known == name) {
        old = std::move(value);
        return;
      }
    }
    variables.emplace_back(name, std::move(value));
  }
};

int64_t BytesOf(const Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) {
    return std::ssize(*text);
  }
  int64_t bytes = 0;
  if (IsList(value)) {
    for (const Value& item :
         std::get<std::shared_ptr<const List>>(value)->items) {
      bytes += BytesOf(item);
    }
  } else if (IsDict(value)) {
    for (const auto& [key, item] :
         std::get<std::shared_ptr<const Dict>>(value)->items) {
      bytes += BytesOf(item);
    }
  }
  return bytes;
}

class Evaluator {
 public:
  explicit Evaluator(std::vector<std::pair<std::string, Value>> variables)
      : root_{.variables = std::move(variables)} {
    for (const auto& [name, value] : root_.variables) {
      bytes_left_ += kMaxCopies * BytesOf(value);
    }
  }

  Result<std::string> Run(const Body& body) {
    std::string out;
    STOWAGE_ASSIGN_OR_RETURN(const Flow flow, RunBody(body, root_, &out));
    (void)flow;
    return out;
  }

 private:
  // Statements.

  Result<Flow> RunBody(const Body& body, Scope& scope, std::string* out) {
    for (const auto& statement : body) {
      STOWAGE_ASSIGN_OR_RETURN(const Flow flow,
                               Execute(*statement, scope, out));
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Result<Flow> Execute(const Statement& statement, Scope& scope,
                       std::string* out) {
    using Kind = Statement::Kind;
    STOWAGE_RETURN_IF_ERROR(Spend(0));
    switch (statement.kind) {
      case Kind::kText:
        STOWAGE_RETURN_IF_ERROR(Spend(std::ssize(statement.text)));
        *out += statement.text;
        return Flow::kNext;
      case Kind::kOutput: {
        STOWAGE_ASSIGN_OR_RETURN(const Value value,
                                 Evaluate(*statement.expressions[0], scope));
        STOWAGE_ASSIGN_OR_RETURN(const std::string text, TextOf(value));
        STOWAGE_RETURN_IF_ERROR(Spend(std::ssize(text)));
        *out += text;
        return Flow::kNext;
      }
      case Kind::kIf:
        for (size_t i = 0; i < statement.bodies.size(); ++i) {
          if (i < statement.expressions.size()) {
            STOWAGE_ASSIGN_OR_RETURN(
                const Value condition,
                Evaluate(*statement.expressions[i], scope));
            if (!IsTrue(condition)) continue;
          }
          return RunBody(statement.bodies[i], scope, out);
        }
        return Flow::kNext;
      case Kind::kFor:
        return RunLoop(statement, scope, out);
      case Kind::kSet: {
        STOWAGE_ASSIGN_OR_RETURN(Value value,
                                 Evaluate(*statement.expressions[0], scope));
        return Assign(statement, std::move(value), scope);
      }
      case Kind::kSetBlock: {
        Scope inner{.parent = &scope};
        std::string text;
        STOWAGE_ASSIGN_OR_RETURN(const Flow flow,
                                 RunBody(statement.bodies[0], inner, &text));
        if (flow != Flow::kNext) return flow;
        return Assign(statement, std::move(text), scope);
      }
      case Kind::kMacro:
        if (&scope != &root_) return UnsupportedError("a macro within a block");
        scope.Set(statement.text, Function{{}, &statement});
        return Flow::kNext;
      case Kind::kScope: {
        Scope inner{.parent = &scope};
        return RunBody(statement.bodies[0], inner, out);
      }
      case Kind::kBreak:
        return Flow::kBreak;
      case Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  Result<Flow> Assign(const Statement& statement, Value value, Scope& scope) {
    if (statement.text.empty()) {
      scope.Set(statement.names[0], std::move(value));
      return Flow::kNext;
    }
    STOWAGE_ASSIGN_OR_RETURN(const Value of, Find(statement.names[0], scope));
    const auto* const space = std::get_if<Namespace>(&of);
    if (space == nullptr) {
      return InvalidArgumentError("it sets an attribute of ", KindOf(of));
    }
    STOWAGE_RETURN_IF_ERROR(CheckHeld(value));
    space->attributes->Set(statement.text, std::move(value));
    return Flow::kNext;
  }

  Result<Flow> RunLoop(const Statement& loop, Scope& scope, std::string* out) {
    STOWAGE_ASSIGN_OR_RETURN(const Value over,
                             Evaluate(*loop.expressions[0], scope));
    STOWAGE_ASSIGN_OR_RETURN(std::shared_ptr<const List> items, Iterate(over));
    if (loop.expressions[1] != nullptr) {
      List kept;
      for (const Value& item : items->items) {
        Scope inner{.parent = &scope};
        STOWAGE_RETURN_IF_ERROR(Bind(loop, item, inner));
        inner.Set("loop", Undefined{"loop"});
        STOWAGE_ASSIGN_OR_RETURN(const Value condition,
                                 Evaluate(*loop.expressions[1], inner));
        if (IsTrue(condition)) kept.items.push_back(item);
      }
      items = std::make_shared<const List>(std::move(kept));
    }
    for (size_t i = 0; i < items->items.size(); ++i) {
      Scope inner{.parent = &scope};
      STOWAGE_RETURN_IF_ERROR(Bind(loop, items->items[i], inner));
      inner.Set("loop", Loop{items, i});
      STOWAGE_ASSIGN_OR_RETURN(const Flow flow,
                               RunBody(loop.bodies[0], inner, out));
      if (flow == Flow::kBreak) break;
    }
    if (items->items.empty() && loop.bodies.size() > 1) {
      Scope inner{.parent = &scope};
      return RunBody(loop.bodies[1], inner, out);
    }
    return Flow::kNext;
  }

  // Sets the loop variables: one, or one for each part of the item.
  Status Bind(const Statement& loop, const Value& item, Scope& scope) {
    if (loop.names.size() == 1) {
      scope.Set(loop.names[0], item);
      return {};
    }
    STOWAGE_ASSIGN_OR_RETURN(const auto parts, Iterate(item));
    if (parts->items.size() != loop.names.size()) {
      return InvalidArgumentError("it takes ", loop.names.size(),
                                  " variables from ", parts->items.size(),
                                  " values");
    }
    for (size_t i = 0; i < loop.names.size(); ++i) {
      scope.Set(loop.names[i], parts->items[i]);
    }
    return {};
  }

  // Expressions.

  Result<Value> Evaluate(const Expression& of, const Scope& scope) {
    STOWAGE_ASSIGN_OR_RETURN(Value value, Compute(of, scope));
    int64_t bytes = 0;
    if (const auto* const text = std::get_if<std::string>(&value)) {
      bytes = std::ssize(*text);
    } else if (IsList(value) && of.kind != Expression::Kind::kName) {
      bytes = kItemBytes *
              std::ssize(std::get<std::shared_ptr<const List>>(value)->items);
    }
    STOWAGE_RETURN_IF_ERROR(Spend(bytes));
    return value;
  }

  Result<Value> Compute(const Expression& of, const Scope& scope) {
    using Kind = Expression::Kind;
    switch (of.kind) {
      case Kind::kLiteral:
        return of.value;
      case Kind::kName:
        return Find(of.text, scope);
      case Kind::kConditional: {
        STOWAGE_ASSIGN_OR_RETURN(const Value condition,
                                 Evaluate(*of.parts[1], scope));
        if (IsTrue(condition)) return Evaluate(*of.parts[0], scope);
        if (of.parts[2] == nullptr) {
          return Value(Undefined{"a value without its condition"});
        }
        return Evaluate(*of.parts[2], scope);
      }
      case Kind::kAnd:
      case Kind::kOr: {
        STOWAGE_ASSIGN_OR_RETURN(Value left, Evaluate(*of.parts[0], scope));
        if (IsTrue(left) == (of.kind == Kind::kOr)) return left;
        return Evaluate(*of.parts[1], scope);
      }
      case Kind::kCall:
        return Call(of, scope);
      default:
        break;
    }
    std::vector<Value> parts;
    for (const auto& part : of.parts) {
      if (part == nullptr) {
        parts.emplace_back(None{});
        continue;
      }
      STOWAGE_ASSIGN_OR_RETURN(Value value, Evaluate(*part, scope));
      parts.push_back(std::move(value));
    }
    switch (of.kind) {
      case Kind::kAttribute:
        return AttributeOf(parts[0], of.text);
      case Kind::kItem:
        return ItemOf(parts[0], parts[1]);
      case Kind::kSlice:
        return SliceOf(parts[0], parts[1], parts[2], parts[3]);
      case Kind::kNot:
        return Value(!IsTrue(parts[0]));
      case Kind::kNegative:
        return Operate("-", Value(int64_t{0}), parts[0]);
      case Kind::kBinary:
        return Operate(of.text, parts[0], parts[1]);
      case Kind::kCompare:
        return Compare(of.text, parts[0], parts[1]);
      case Kind::kFilter:
      case Kind::kTest: {
        STOWAGE_ASSIGN_OR_RETURN(
            const Arguments arguments,
            ArgumentsOf(of, {parts.begin() + 1, parts.end()}, scope));
        if (of.kind == Kind::kFilter) {
          return ApplyFilter(of.text, parts[0], arguments);
        }
        STOWAGE_ASSIGN_OR_RETURN(const bool passes,
                                 ApplyTest(of.text, parts[0], arguments));
        return Value(passes);
      }
      case Kind::kList:
        for (const Value& item : parts)
          STOWAGE_RETURN_IF_ERROR(CheckHeld(item));
        return MakeList(std::move(parts));
      case Kind::kDict: {
        Dict dict;
        for (size_t i = 0; i < parts.size(); i += 2) {
          if (!Is<std::string>(parts[i])) {
            return UnsupportedError("a dict by ", KindOf(parts[i]));
          }
          STOWAGE_RETURN_IF_ERROR(CheckHeld(parts[i + 1]));
          dict.Set(std::get<std::string>(parts[i]), std::move(parts[i + 1]));
        }
        return MakeDict(std::move(dict));
      }
      default:
        return UnsupportedError("an expression");
    }
  }

  static Result<Value> Compare(std::string_view operation, const Value& left,
                               const Value& right) {
    if (operation == "==") return Value(Equal(left, right));
    if (operation == "!=") return Value(!Equal(left, right));
    const bool in = operation == "in", less = operation.starts_with('<');
    if (in || operation == "not in") {
      STOWAGE_ASSIGN_OR_RETURN(const bool contains, Contains(right, left));
      return Value(contains == in);
    }
    STOWAGE_ASSIGN_OR_RETURN(const bool is_less,
                             less ? Less(left, right) : Less(right, left));
    return Value(is_less || (operation.ends_with('=') && Equal(left, right)));
  }

  Result<Arguments> ArgumentsOf(const Expression& call,
                                std::vector<Value> values, const Scope& scope) {
    Arguments arguments{.values = std::move(values)};
    for (const auto& [name, expression] : call.named) {
      STOWAGE_ASSIGN_OR_RETURN(Value value, Evaluate(*expression, scope));
      arguments.named.emplace_back(name, std::move(value));
    }
    return arguments;
  }

  Result<Value> Call(const Expression& call, const Scope& scope) {
    const Expression& callee = *call.parts[0];
    // A call of a namespace's attribute is no method call.
    const bool method = callee.kind == Expression::Kind::kAttribute;
    STOWAGE_ASSIGN_OR_RETURN(
        const Value of, Evaluate(method ? *callee.parts[0] : callee, scope));
    std::vector<Value> values;
    for (size_t i = 1; i < call.parts.size(); ++i) {
      STOWAGE_ASSIGN_OR_RETURN(Value value, Evaluate(*call.parts[i], scope));
      values.push_back(std::move(value));
    }
    STOWAGE_ASSIGN_OR_RETURN(const Arguments arguments,
                             ArgumentsOf(call, std::move(values), scope));
    if (method) return CallMethod(callee.text, of, arguments);
    const auto* const function = std::get_if<Function>(&of);
    if (function == nullptr) {
      return Is<Undefined>(of)
                 ? InvalidArgumentError(Quoted(std::get<Undefined>(of).name),
                                        " is undefined")
                 : UnsupportedError("a call of ", KindOf(of));
    }
    if (function->macro != nullptr)
      return CallMacro(*function->macro, arguments);
    return CallBuiltin(function->name, arguments);
  }

  Result<Value> CallMacro(const Statement& macro, const Arguments& arguments) {
    if (arguments.values.size() > macro.names.size()) {
      return InvalidArgumentError("it calls the macro ", Quoted(macro.text),
                                  " with ", arguments.values.size(),
                                  " arguments, which takes ",
                                  macro.names.size());
    }
    for (const auto& [name, value] : arguments.named) {
      const auto param = std::ranges::find(macro.names, name);
      if (param == macro.names.end() ||
          param - macro.names.begin() < std::ssize(arguments.values)) {
        return UnsupportedError("an argument ", Quoted(name), " of the macro ",
                                Quoted(macro.text));
      }
    }
    if (calls_ == kMaxCalls) {
      return UnsupportedError("macros in macros, ", kMaxCalls + 1, " deep");
    }
    Scope scope{.parent = &root_};
    for (size_t i = 0; i < macro.names.size(); ++i) {
      const Value* const given = arguments.Find(i, macro.names[i]);
      Value value = Undefined{macro.names[i]};
      if (given != nullptr) {
        value = *given;
      } else if (macro.expressions[i] != nullptr) {
        STOWAGE_ASSIGN_OR_RETURN(value, Evaluate(*macro.expressions[i], scope));
      }
      scope.Set(macro.names[i], std::move(value));
    }
    ++calls_;
    std::string text;
    const Result<Flow> flow = RunBody(macro.bodies[0], scope, &text);
    --calls_;
    if (!flow.ok()) return flow.error();
    return Value(std::move(text));
  }

  static Result<Value> CallBuiltin(std::string_view name,
                                   const Arguments& arguments) {
    if (name == "raise_exception") {
      const Value* const message = arguments.Find(0, "message");
      std::string text;
      if (message != nullptr) {
        STOWAGE_ASSIGN_OR_RETURN(text, TextOf(*message));
      }
      return InvalidArgumentError("it says ", Quoted(text));
    }
    if (name == "range") return Range(arguments);
    if (!arguments.values.empty()) {
      return UnsupportedError(name, " of arguments without names");
    }
    Dict dict;
    for (const auto& [key, value] : arguments.named) {
      STOWAGE_RETURN_IF_ERROR(CheckHeld(value));
      dict.Set(key, value);
    }
    if (name == "dict") return MakeDict(std::move(dict));
    return Value(Namespace{std::make_shared<Dict>(std::move(dict))});
  }

  static Result<Value> Range(const Arguments& arguments) {
    std::vector<int64_t> bounds;
    for (const Value& value : arguments.values) {
      if (!Is<int64_t>(value)) {
        return UnsupportedError("a range by ", KindOf(value));
      }
      bounds.push_back(std::get<int64_t>(value));
    }
    if (bounds.empty() || bounds.size() > 3 || !arguments.named.empty()) {
      return UnsupportedError("a range of ", bounds.size(), " bounds");
    }
    const int64_t begin = bounds.size() == 1 ? 0 : bounds[0];
    const int64_t end = bounds.size() == 1 ? bounds[0] : bounds[1];
    const int64_t step = bounds.size() == 3 ? bounds[2] : 1;
    constexpr int64_t kFar = int64_t{1} << 40;
    for (const int64_t bound : {begin, end, step}) {
      if (bound > kFar || bound < -kFar) {
        return UnsupportedError("a range by ", bound);
      }
    }
    if (step == 0) return InvalidArgumentError("a range in steps of 0");
    std::vector<Value> items;
    for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
      if (std::ssize(items) == kMaxRange) {
        return InvalidArgumentError("a range of more than ", kMaxRange,
                                    " numbers");
      }
      items.emplace_back(i);
    }
    return MakeList(std::move(items));
  }

  static Result<Value> Find(std::string_view name, const Scope& scope) {
    for (const Scope* at = &scope; at != nullptr; at = at->parent) {
      for (const auto& [known, value] : at->variables) {
        if (known == name) return value;
      }
    }
    constexpr std::array<std::string_view, 4> kBuiltins = {
        "raise_exception", "namespace", "range", "dict"};
    for (const std::string_view builtin : kBuiltins) {
      if (builtin == name) return Value(Function{std::string(name), nullptr});
    }
    // Further globals of Jinja and transformers.
    constexpr std::array<std::string_view, 3> kOthers = {"lipsum", "cycler",
                                                         "joiner"};
    for (const std::string_view other : kOthers) {
      if (other == name) {
        return UnsupportedError("the function ", Quoted(name));
      }
    }
    return Value(Undefined{std::string(name)});
  }

  // A namespace in another value could contain itself, and would never be freed.
  static Status CheckHeld(const Value& value) {
    if (!Is<Namespace>(value)) return {};
    return UnsupportedError("a namespace in another value");
  }

  Status Spend(int64_t bytes) {
    bytes_left_ -= bytes;
    if (++steps_ > kMaxRenderSteps) {
      return UnsupportedError("more than ", kMaxRenderSteps, " steps");
    }
    if (bytes_left_ < 0) {
      return UnsupportedError("strings of far more bytes than it is given");
    }
    return {};
  }

  Scope root_;
  int64_t bytes_left_ = kMaxBytes;
  int64_t steps_ = 0;
  int calls_ = 0;
};

}  // namespace

struct Template::Data {
  Body body;
};

Result<Template> Template::Parse(std::string_view source) {
  STOWAGE_ASSIGN_OR_RETURN(Body body, jinja::Parse(source));
  return Template(std::make_shared<const Data>(Data{std::move(body)}));
}

Result<std::string> Template::Render(
    std::vector<std::pair<std::string, Value>> variables) const {
  return Evaluator(std::move(variables)).Run(data_->body);
}

}  // namespace stowage::jinja

namespace stowage {

Result<ChatTemplate> ChatTemplate::Parse(std::string_view jinja,
                                         Tokens tokens) {
  auto parsed = jinja::Template::Parse(jinja);
  if (parsed.ok()) return ChatTemplate(*std::move(parsed), std::move(tokens));
  return Error{parsed.error().code,
               StrCat("[text] the chat template ", Quoted(jinja.substr(0, 60)),
                      jinja.size() > 60 ? "..." : "",
                      " is not read: ", parsed.error().message,
                      parsed.error().code == ErrorCode::kUnsupported
                          ? ", which is not known here"
                          : "; expected a template in Jinja")};
}

Result<std::string> ChatTemplate::Format(
    const std::vector<ChatMessage>& messages,
    const ChatOptions& options) const {
  if (messages.empty() && !options.open_answer) {
    return Error{
        ErrorCode::kInvalidArgument,
        "[text] a conversation has no messages; expected one at least"};
  }
  std::vector<jinja::Value> list;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[text] message ", i, " is of ", Quoted(role),
                          "; expected system, user or assistant")};
    }
    list.push_back(
        jinja::MakeDict({{{"role", role}, {"content", messages[i].content}}}));
  }
  std::vector<std::pair<std::string, jinja::Value>> variables = {
      {"messages", jinja::MakeList(std::move(list))},
      {"add_generation_prompt", options.open_answer},
      {"tools", jinja::None{}},
      {"documents", jinja::None{}}};
  if (!options.thinking) variables.emplace_back("enable_thinking", false);
  for (const auto& [name, token] : tokens_) variables.emplace_back(name, token);
  auto text = jinja_.Render(std::move(variables));
  if (text.ok()) return text;
  return Error{
      text.error().code,
      StrCat("[text] the chat template does not write this conversation: ",
             text.error().message,
             text.error().code == ErrorCode::kUnsupported
                 ? ", which is not known here"
                 : "")};
}

Result<std::string> ChatTemplate::AfterAnswer() const {
  constexpr std::string_view kAnswer = "ANSWER";
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string text,
      Format({{"user", "question"}, {"assistant", std::string(kAnswer)}}));
  const size_t at = text.rfind(kAnswer);
  if (at == std::string::npos) {
    return Error{ErrorCode::kUnsupported,
                 "[text] the chat template does not write what answers say"};
  }
  return std::string(jinja::Strip(
      std::string_view(text).substr(at + kAnswer.size()), true, false));
}

}  // namespace stowage
