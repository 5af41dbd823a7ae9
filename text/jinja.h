#ifndef STOWAGE_TEXT_JINJA_H_
#define STOWAGE_TEXT_JINJA_H_

// Templates in Jinja, as far as chat templates of published models use it, rendered as
// transformers renders them: Jinja 3.1 in a sandbox, with trim_blocks, lstrip_blocks,
// break and continue, raise_exception, and undefined values that are empty.
//
//   STOWAGE_ASSIGN_OR_RETURN(const jinja::Template hello,
//                            jinja::Template::Parse("Hello {{ name | trim }}!"));
//   STOWAGE_ASSIGN_OR_RETURN(const std::string text,
//                            hello.Render({{"name", std::string(" you ")}}));
//
// What this code does not know is an error and never passed over: a tag when the template
// is parsed, a filter, a test, a method or an operator on values that it does not take when
// it is reached. A template that does too much ends with an error.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace stowage::jinja {

class Template {
 public:
  /// Errors, which name the line: kInvalidArgument for what is no Jinja, kUnsupported for
  /// what is not known here.
  static Result<Template> Parse(std::string_view source);

  /// The text for these variables. Errors: kInvalidArgument where the template raises an
  /// exception, or Python would; kUnsupported for what is not known here, and for more
  /// than 4 million steps or 64 MiB and 1,024 times the bytes of `variables` in strings.
  Result<std::string> Render(
      std::vector<std::pair<std::string, Value>> variables) const;

 private:
  struct Data;
  explicit Template(std::shared_ptr<const Data> data)
      : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_H_
