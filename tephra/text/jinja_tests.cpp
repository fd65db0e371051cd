// SPDX-License-Identifier: Apache-2.0
// The tests behind `is`.
#include "tephra/text/jinja_runtime.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

Value defined(Call& call) { return !call.self.is_undefined(); }
Value undefined(Call& call) { return call.self.is_undefined(); }
Value none(Call& call) { return call.self.is_none(); }
Value boolean(Call& call) { return call.self.is_bool(); }
Value is_true(Call& call) { return call.self.is_bool() && call.self.boolean(); }
Value is_false(Call& call) { return call.self.is_bool() && !call.self.boolean(); }
Value integer(Call& call) { return call.self.is_int(); }
Value real(Call& call) { return call.self.is_float(); }
Value number(Call& call) { return call.self.is_number(); }
Value string(Call& call) { return call.self.is_text(); }
Value mapping(Call& call) { return call.self.is_dict(); }
Value iterable(Call& call) { return call.runtime.is_iterable(call.self); }
Value escaped(Call& call) { return call.self.is_text() && call.self.text().markup; }
Value same_as(Call& call) { return call.self.same_as(call.at(0)); }
Value in(Call& call) { return call.runtime.contains(call.at(0), call.self); }
Value lower_case(Call& call) { return is_lower_text(call.runtime.str(call.self)); }
Value upper_case(Call& call) { return is_upper_text(call.runtime.str(call.self)); }
Value is_filter(Call& call) {
  return find_builtin(filters(), call.runtime.str(call.self)) != nullptr;
}
Value is_test(Call& call) { return find_builtin(tests(), call.runtime.str(call.self)) != nullptr; }

// An undefined value has a length and __getitem__, so jinja2 calls it a sequence, too.
Value sequence(Call& call) {
  return call.self.is_text() || call.self.is_dict() || call.self.is_undefined() ||
         (call.self.is_sequence() && call.self.sequence().flavour <= Flavour::range);
}

// An undefined value fails when it is called, but it can be called.
Value is_callable(Call& call) {
  return call.self.is_undefined() || (call.self.is_object() && call.self.object().callable());
}

bool remainder_is(Call& call, const Value& divisor, int64_t wanted) {
  return call.runtime.equal(call.runtime.binary("%", call.self, divisor), wanted);
}
Value odd(Call& call) { return remainder_is(call, int64_t{2}, 1); }
Value even(Call& call) { return remainder_is(call, int64_t{2}, 0); }
Value divisible_by(Call& call) { return remainder_is(call, call.at(0), 0); }

Value eq(Call& call) { return call.runtime.equal(call.self, call.at(0)); }
Value ne(Call& call) { return !call.runtime.equal(call.self, call.at(0)); }
Value lt(Call& call) { return call.runtime.compare(call.self, call.at(0), "<") == -1; }
Value gt(Call& call) { return call.runtime.compare(call.self, call.at(0), ">") == 1; }
Value le(Call& call) {
  const int order = call.runtime.compare(call.self, call.at(0), "<=");
  return order == -1 || order == 0;
}
Value ge(Call& call) {
  const int order = call.runtime.compare(call.self, call.at(0), ">=");
  return order == 1 || order == 0;
}

constexpr Builtin kTests[] = {
    {"!=", "$other!", ne},
    {"<", "$other!", lt},
    {"<=", "$other!", le},
    {"==", "$other!", eq},
    {">", "$other!", gt},
    {">=", "$other!", ge},
    {"boolean", "", boolean},
    {"callable", "", is_callable},
    {"defined", "", defined},
    {"divisibleby", "num!", divisible_by},
    {"eq", "$other!", eq},
    {"equalto", "$other!", eq},
    {"escaped", "", escaped},
    {"even", "", even},
    {"false", "", is_false},
    {"filter", "", is_filter},
    {"float", "", real},
    {"ge", "$other!", ge},
    {"greaterthan", "$other!", gt},
    {"gt", "$other!", gt},
    {"in", "seq!", in},
    {"integer", "", integer},
    {"iterable", "", iterable},
    {"le", "$other!", le},
    {"lessthan", "$other!", lt},
    {"lower", "", lower_case},
    {"lt", "$other!", lt},
    {"mapping", "", mapping},
    {"ne", "$other!", ne},
    {"none", "", none},
    {"number", "", number},
    {"odd", "", odd},
    {"sameas", "other!", same_as},
    {"sequence", "", sequence},
    {"string", "", string},
    {"test", "", is_test},
    {"true", "", is_true},
    {"undefined", "", undefined},
    {"upper", "", upper_case},
};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace tephra::jinja
