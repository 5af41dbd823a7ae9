#include "text/jinja_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/strings.h"

namespace stowage::jinja {
namespace {

using ExpressionKind = Expression::Kind;
using Pointer = std::unique_ptr<const Expression>;
using Parsed = Result<Pointer>;

constexpr int kMaxDepth = 100;

template <typename... Parts>
Pointer Make(ExpressionKind kind, std::string_view text, Parts... parts) {
  auto made = std::make_unique<Expression>(Expression{.kind = kind});
  made->text = text;
  (made->parts.push_back(std::move(parts)), ...);
  return made;
}

Pointer Literal(Value value) {
  auto made = std::make_unique<Expression>(
      Expression{.kind = ExpressionKind::kLiteral});
  made->value = std::move(value);
  return made;
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<Body> Run() { return ReadBody({}); }

 private:
  const Token& Now() const { return tokens_[at_]; }
  const Token& Take() {
    return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_];
  }
  bool At(Token::Kind kind, std::string_view text) const {
    return Now().kind == kind && Now().text == text;
  }
  bool AtName(std::string_view name) const {
    return At(Token::Kind::kName, name);
  }
  bool AtOperator(std::string_view text) const {
    return At(Token::Kind::kOperator, text);
  }
  bool TakeName(std::string_view name) {
    return AtName(name) && (Take(), true);
  }
  bool TakeOperator(std::string_view text) {
    return AtOperator(text) && (Take(), true);
  }
  std::string Here() const {
    return Now().kind == Token::Kind::kEnd ||
                   Now().kind == Token::Kind::kBlockEnd ||
                   Now().kind == Token::Kind::kOutputEnd
               ? "the end"
               : Quoted(Now().text);
  }
  Error Fail(std::string_view what) const {
    return InvalidArgumentError("line ", Now().line, ": ", what);
  }
  Error NotRead(std::string_view what) const {
    return UnsupportedError("line ", Now().line, ": ", what);
  }
  Status Expect(std::string_view operation) {
    if (TakeOperator(operation)) return {};
    return Fail(StrCat("expected ", Quoted(operation), " and not ", Here()));
  }
  Result<std::string> TakeAnyName() {
    if (Now().kind == Token::Kind::kName) return Take().text;
    return Fail(StrCat("expected a name and not ", Here()));
  }
  Status ExpectBlockEnd() {
    if (Now().kind == Token::Kind::kBlockEnd) {
      Take();
      return {};
    }
    return Fail(StrCat("expected the end of a tag and not ", Here()));
  }

  // Statements.

  // Parses up to a tag of one of the names, and consumes its name; without names, up to the
  // end of the template.
  Result<Body> ReadBody(std::initializer_list<std::string_view> ends) {
    const DepthGuard deeper(&depth_);
    if (depth_ > kMaxDepth) return NotRead("it nests too deep");
    Body body;
    while (true) {
      if (Now().kind == Token::Kind::kEnd) {
        if (ends.size() == 0) return body;
        return Fail(StrCat("expected the tag ", Quoted(*ends.begin())));
      }
      if (Now().kind == Token::Kind::kData) {
        body.push_back(std::make_unique<Statement>(
            Statement{.kind = Statement::Kind::kText, .text = Take().text}));
      } else if (Now().kind == Token::Kind::kOutputBegin) {
        Take();
        Statement output{.kind = Statement::Kind::kOutput};
        STOWAGE_RETURN_IF_ERROR(Append(ReadExpression(), &output));
        if (Now().kind != Token::Kind::kOutputEnd) {
          return Fail(StrCat("expected the end of a tag and not ", Here()));
        }
        Take();
        body.push_back(std::make_unique<Statement>(std::move(output)));
      } else {
        Take();  // a block begins
        STOWAGE_ASSIGN_OR_RETURN(const std::string tag, TakeAnyName());
        if (std::ranges::find(ends, tag) != ends.end()) {
          end_ = tag;
          return body;
        }
        STOWAGE_ASSIGN_OR_RETURN(Statement statement, ReadStatement(tag));
        body.push_back(std::make_unique<Statement>(std::move(statement)));
      }
    }
  }

  static Status Append(Parsed expression, Statement* to) {
    if (!expression.ok()) return expression.error();
    to->expressions.push_back(*std::move(expression));
    return {};
  }
  // A body, and its end tag.
  Status AppendBody(std::initializer_list<std::string_view> ends,
                    Statement* to) {
    STOWAGE_ASSIGN_OR_RETURN(Body body, ReadBody(ends));
    to->bodies.push_back(std::move(body));
    return {};
  }

  Result<Statement> ReadStatement(const std::string& tag) {
    if (tag == "if") return ReadIf();
    if (tag == "for") return ReadFor();
    if (tag == "set") return ReadSet();
    if (tag == "macro") return ReadMacro();
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) return Fail(StrCat("a ", tag, " outside of a loop"));
      STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
      return Statement{.kind = tag == "break" ? Statement::Kind::kBreak
                                              : Statement::Kind::kContinue};
    }
    if (tag == "generation") {
      STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
      Statement scope{.kind = Statement::Kind::kScope};
      const int loops = std::exchange(loops_, 0);
      STOWAGE_RETURN_IF_ERROR(AppendBody({"endgeneration"}, &scope));
      loops_ = loops;
      STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
      return scope;
    }
    return NotRead(StrCat("the tag ", Quoted(tag)));
  }

  Result<Statement> ReadIf() {
    Statement branches{.kind = Statement::Kind::kIf};
    do {
      STOWAGE_RETURN_IF_ERROR(Append(ReadExpression(), &branches));
      STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
      STOWAGE_RETURN_IF_ERROR(AppendBody({"endif", "elif", "else"}, &branches));
    } while (end_ == "elif");
    if (end_ == "else") {
      STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
      STOWAGE_RETURN_IF_ERROR(AppendBody({"endif"}, &branches));
    }
    STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
    return branches;
  }

  Result<Statement> ReadFor() {
    Statement loop{.kind = Statement::Kind::kFor};
    do {
      STOWAGE_ASSIGN_OR_RETURN(std::string name, TakeAnyName());
      loop.names.push_back(std::move(name));
    } while (TakeOperator(","));
    if (!TakeName("in"))
      return Fail(StrCat("expected \"in\" and not ", Here()));
    STOWAGE_RETURN_IF_ERROR(Append(ReadOr(), &loop));
    if (TakeName("if")) {
      STOWAGE_RETURN_IF_ERROR(Append(ReadExpression(), &loop));
    } else {
      loop.expressions.push_back(nullptr);
    }
    if (AtName("recursive")) return NotRead("a recursive loop");
    STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
    ++loops_;
    STOWAGE_RETURN_IF_ERROR(AppendBody({"endfor", "else"}, &loop));
    --loops_;
    if (end_ == "else") {
      STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
      STOWAGE_RETURN_IF_ERROR(AppendBody({"endfor"}, &loop));
    }
    STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
    return loop;
  }

  Result<Statement> ReadSet() {
    Statement set{.kind = Statement::Kind::kSet};
    STOWAGE_ASSIGN_OR_RETURN(std::string name, TakeAnyName());
    set.names.push_back(std::move(name));
    if (TakeOperator(".")) {
      STOWAGE_ASSIGN_OR_RETURN(set.text, TakeAnyName());
    }
    if (AtOperator(",")) return NotRead("a set of several variables");
    if (TakeOperator("=")) {
      STOWAGE_RETURN_IF_ERROR(Append(ReadExpression(), &set));
      STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
      return set;
    }
    if (AtOperator("|"))
      return NotRead("a set of what filters make of a block");
    set.kind = Statement::Kind::kSetBlock;
    STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
    STOWAGE_RETURN_IF_ERROR(AppendBody({"endset"}, &set));
    STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
    return set;
  }

  Result<Statement> ReadMacro() {
    Statement macro{.kind = Statement::Kind::kMacro};
    STOWAGE_ASSIGN_OR_RETURN(macro.text, TakeAnyName());
    STOWAGE_RETURN_IF_ERROR(Expect("("));
    while (!TakeOperator(")")) {
      if (!macro.names.empty()) STOWAGE_RETURN_IF_ERROR(Expect(","));
      STOWAGE_ASSIGN_OR_RETURN(std::string name, TakeAnyName());
      macro.names.push_back(std::move(name));
      if (TakeOperator("=")) {
        STOWAGE_RETURN_IF_ERROR(Append(ReadExpression(), &macro));
      } else {
        macro.expressions.push_back(nullptr);
      }
    }
    STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
    const int loops = std::exchange(loops_, 0);
    STOWAGE_RETURN_IF_ERROR(AppendBody({"endmacro"}, &macro));
    loops_ = loops;
    if (Now().kind == Token::Kind::kName) Take();  // the macro's name again
    STOWAGE_RETURN_IF_ERROR(ExpectBlockEnd());
    return macro;
  }

  // Expressions, in ascending order of precedence.

  Parsed ReadExpression() {
    const DepthGuard deeper(&depth_);
    if (depth_ > kMaxDepth) return NotRead("it nests too deep");
    STOWAGE_ASSIGN_OR_RETURN(Pointer first, ReadOr());
    while (TakeName("if")) {
      STOWAGE_ASSIGN_OR_RETURN(Pointer condition, ReadOr());
      Pointer otherwise;
      if (TakeName("else")) {
        STOWAGE_ASSIGN_OR_RETURN(otherwise, ReadExpression());
      }
      first = Make(ExpressionKind::kConditional, "", std::move(first),
                   std::move(condition), std::move(otherwise));
    }
    return first;
  }

  Parsed ReadOr() {
    STOWAGE_ASSIGN_OR_RETURN(Pointer left, ReadAnd());
    while (TakeName("or")) {
      STOWAGE_ASSIGN_OR_RETURN(Pointer right, ReadAnd());
      left = Make(ExpressionKind::kOr, "", std::move(left), std::move(right));
    }
    return left;
  }

  Parsed ReadAnd() {
    STOWAGE_ASSIGN_OR_RETURN(Pointer left, ReadNot());
    while (TakeName("and")) {
      STOWAGE_ASSIGN_OR_RETURN(Pointer right, ReadNot());
      left = Make(ExpressionKind::kAnd, "", std::move(left), std::move(right));
    }
    return left;
  }

  Parsed ReadNot() {
    const DepthGuard deeper(&depth_);
    if (depth_ > kMaxDepth) return NotRead("it nests too deep");
    if (!TakeName("not")) return ReadCompare();
    STOWAGE_ASSIGN_OR_RETURN(Pointer of, ReadNot());
    return Make(ExpressionKind::kNot, "", std::move(of));
  }

  std::optional<std::string> TakeComparison() {
    for (const std::string_view text : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (TakeOperator(text)) return std::string(text);
    }
    if (TakeName("in")) return "in";
    if (AtName("not") && tokens_[at_ + 1].kind == Token::Kind::kName &&
        tokens_[at_ + 1].text == "in") {
      Take();
      Take();
      return "not in";
    }
    return {};
  }

  Parsed ReadCompare() {
    STOWAGE_ASSIGN_OR_RETURN(Pointer left, ReadSum());
    const auto comparison = TakeComparison();
    if (!comparison) return left;
    STOWAGE_ASSIGN_OR_RETURN(Pointer right, ReadSum());
    if (TakeComparison()) return NotRead("a chain of comparisons");
    return Make(ExpressionKind::kCompare, *comparison, std::move(left),
                std::move(right));
  }

  // Binary operators of one precedence, which are left-associative.
  Parsed ReadBinary(std::span<const std::string_view> operations,
                    Parsed (Parser::*operand)()) {
    STOWAGE_ASSIGN_OR_RETURN(Pointer left, (this->*operand)());
    while (Now().kind == Token::Kind::kOperator &&
           std::ranges::find(operations, Now().text) != operations.end()) {
      const std::string operation = Take().text;
      STOWAGE_ASSIGN_OR_RETURN(Pointer right, (this->*operand)());
      left = Make(ExpressionKind::kBinary, operation, std::move(left),
                  std::move(right));
    }
    return left;
  }
  Parsed ReadSum() {
    constexpr std::array<std::string_view, 2> kSums = {"+", "-"};
    return ReadBinary(kSums, &Parser::ReadConcatenation);
  }
  Parsed ReadConcatenation() {
    constexpr std::array<std::string_view, 1> kTilde = {"~"};
    return ReadBinary(kTilde, &Parser::ReadProduct);
  }
  Parsed ReadProduct() {
    constexpr std::array<std::string_view, 4> kProducts = {"*", "/", "//", "%"};
    return ReadBinary(kProducts, &Parser::ReadFiltered);
  }

  Parsed ReadFiltered() {
    STOWAGE_ASSIGN_OR_RETURN(Pointer of, ReadUnary());
    while (true) {
      if (AtOperator("**")) return NotRead("the operator \"**\"");
      if (TakeOperator("|")) {
        STOWAGE_ASSIGN_OR_RETURN(const std::string name, TakeAnyName());
        STOWAGE_ASSIGN_OR_RETURN(
            of, ReadArguments(ExpressionKind::kFilter, name, std::move(of),
                              AtOperator("(")));
      } else if (TakeName("is")) {
        STOWAGE_ASSIGN_OR_RETURN(of, ReadTest(std::move(of)));
      } else if (AtOperator("(")) {
        STOWAGE_ASSIGN_OR_RETURN(
            of, ReadArguments(ExpressionKind::kCall, "", std::move(of), true));
      } else {
        return of;
      }
    }
  }

  Parsed ReadTest(Pointer of) {
    const bool negated = TakeName("not");
    STOWAGE_ASSIGN_OR_RETURN(const std::string name, TakeAnyName());
    const bool has_list = AtOperator("(");
    STOWAGE_ASSIGN_OR_RETURN(
        Pointer test,
        ReadArguments(ExpressionKind::kTest, name, std::move(of), has_list));
    constexpr std::array<std::string_view, 5> kNoArgument = {
        "else", "or", "and", "if", "not"};
    const bool is_name =
        Now().kind == Token::Kind::kName &&
        std::ranges::find(kNoArgument, Now().text) == kNoArgument.end();
    if (!has_list && (is_name || Now().kind == Token::Kind::kString ||
                      Now().kind == Token::Kind::kInteger ||
                      Now().kind == Token::Kind::kReal || AtOperator("[") ||
                      AtOperator("{"))) {
      if (AtName("in")) return NotRead("a test within a comparison");
      return NotRead(
          StrCat("the test ", Quoted(name), " of a value without brackets"));
    }
    if (negated) return Make(ExpressionKind::kNot, "", std::move(test));
    return test;
  }

  // The call of a filter, a test or a function, with its arguments if there are parentheses.
  Parsed ReadArguments(ExpressionKind kind, std::string_view name, Pointer of,
                       bool has_list) {
    auto call = std::make_unique<Expression>(Expression{.kind = kind});
    call->text = name;
    call->parts.push_back(std::move(of));
    if (!has_list) return Pointer(std::move(call));
    STOWAGE_RETURN_IF_ERROR(Expect("("));
    for (bool first = true; !TakeOperator(")"); first = false) {
      if (!first) {
        STOWAGE_RETURN_IF_ERROR(Expect(","));
        if (TakeOperator(")")) break;
      }
      if (AtOperator("*") || AtOperator("**")) {
        return NotRead("a call with arguments from a list");
      }
      const bool named = Now().kind == Token::Kind::kName &&
                         tokens_[at_ + 1].kind == Token::Kind::kOperator &&
                         tokens_[at_ + 1].text == "=";
      std::string argument;
      if (named) {
        argument = Take().text;
        Take();
      } else if (!call->named.empty()) {
        return Fail("an argument without a name follows one with a name");
      }
      STOWAGE_ASSIGN_OR_RETURN(Pointer value, ReadExpression());
      if (named) {
        call->named.emplace_back(std::move(argument), std::move(value));
      } else {
        call->parts.push_back(std::move(value));
      }
    }
    return Pointer(std::move(call));
  }

  Parsed ReadUnary() {
    const DepthGuard deeper(&depth_);
    if (depth_ > kMaxDepth) return NotRead("it nests too deep");
    if (TakeOperator("-")) {
      STOWAGE_ASSIGN_OR_RETURN(Pointer of, ReadUnary());
      return Make(ExpressionKind::kNegative, "", std::move(of));
    }
    if (AtOperator("+")) return NotRead("the sign \"+\"");
    STOWAGE_ASSIGN_OR_RETURN(Pointer of, ReadPrimary());
    while (true) {
      if (TakeOperator(".")) {
        STOWAGE_ASSIGN_OR_RETURN(const std::string name, TakeAnyName());
        of = Make(ExpressionKind::kAttribute, name, std::move(of));
      } else if (TakeOperator("[")) {
        STOWAGE_ASSIGN_OR_RETURN(of, ReadSubscript(std::move(of)));
      } else if (AtOperator("(")) {
        STOWAGE_ASSIGN_OR_RETURN(
            of, ReadArguments(ExpressionKind::kCall, "", std::move(of), true));
      } else {
        return of;
      }
    }
  }

  Parsed ReadSubscript(Pointer of) {
    std::vector<Pointer> bounds;
    bool slice = false;
    while (true) {
      Pointer bound;
      if (!AtOperator(":") && !AtOperator("]")) {
        STOWAGE_ASSIGN_OR_RETURN(bound, ReadExpression());
      }
      bounds.push_back(std::move(bound));
      if (bounds.size() == 3 || !TakeOperator(":")) break;
      slice = true;
    }
    STOWAGE_RETURN_IF_ERROR(Expect("]"));
    if (!slice) {
      if (bounds.front() == nullptr) return Fail("an index is empty");
      return Make(ExpressionKind::kItem, "", std::move(of),
                  std::move(bounds.front()));
    }
    bounds.resize(3);
    return Make(ExpressionKind::kSlice, "", std::move(of), std::move(bounds[0]),
                std::move(bounds[1]), std::move(bounds[2]));
  }

  Parsed ReadPrimary() {
    if (Now().kind == Token::Kind::kName) {
      const std::string name = Take().text;
      if (name == "true" || name == "True") return Literal(true);
      if (name == "false" || name == "False") return Literal(false);
      if (name == "none" || name == "None") return Literal(None{});
      return Make(ExpressionKind::kName, name);
    }
    if (Now().kind == Token::Kind::kString) {
      std::string text;
      while (Now().kind == Token::Kind::kString) text += Take().text;
      return Literal(std::move(text));
    }
    if (Now().kind == Token::Kind::kInteger) {
      int64_t number = 0;
      const std::string& text = Now().text;
      if (std::from_chars(text.data(), text.data() + text.size(), number).ec !=
          std::errc()) {
        return NotRead(StrCat("the number ", text));
      }
      Take();
      return Literal(number);
    }
    if (Now().kind == Token::Kind::kReal) {
      double number = 0;
      const std::string& text = Take().text;
      std::from_chars(text.data(), text.data() + text.size(), number);
      return Literal(number);
    }
    if (TakeOperator("(")) {
      STOWAGE_ASSIGN_OR_RETURN(Pointer inner, ReadExpression());
      if (TakeOperator(")")) return inner;
      auto tuple = std::make_unique<Expression>(
          Expression{.kind = ExpressionKind::kList});
      tuple->parts.push_back(std::move(inner));
      return ReadItems(")", std::move(tuple));
    }
    const bool dict = AtOperator("{");
    if (!dict && !AtOperator("[")) {
      return Fail(StrCat("expected a value and not ", Here()));
    }
    Take();
    return ReadItems(
        dict ? "}" : "]",
        std::make_unique<Expression>(Expression{
            .kind = dict ? ExpressionKind::kDict : ExpressionKind::kList}));
  }

  // The rest of a list, a dict, or a tuple, which becomes a list.
  Parsed ReadItems(std::string_view end, std::unique_ptr<Expression> items) {
    while (!TakeOperator(end)) {
      if (!items->parts.empty()) {
        STOWAGE_RETURN_IF_ERROR(Expect(","));
        if (TakeOperator(end)) break;
      }
      STOWAGE_ASSIGN_OR_RETURN(Pointer item, ReadExpression());
      items->parts.push_back(std::move(item));
      if (items->kind != ExpressionKind::kDict) continue;
      STOWAGE_RETURN_IF_ERROR(Expect(":"));
      STOWAGE_ASSIGN_OR_RETURN(Pointer value, ReadExpression());
      items->parts.push_back(std::move(value));
    }
    return Pointer(std::move(items));
  }

  struct DepthGuard {
    explicit DepthGuard(int* of) : depth(of) { ++*depth; }
    ~DepthGuard() { --*depth; }
    DepthGuard(const DepthGuard&) = delete;
    DepthGuard& operator=(const DepthGuard&) = delete;
    int* depth;
  };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;    // enclosing loops
  std::string end_;  // the tag that the last body ended with
};

}  // namespace

Result<Body> Parse(std::string_view source) {
  STOWAGE_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace stowage::jinja
