// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/http_parser.h"

#include <algorithm>
#include <charconv>

#include "tephra/base/text.h"

namespace tephra {
namespace {

bool is_token(std::string_view text) {  // RFC 9110, 5.6.2
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != kOthers.npos;
  });
}

// What no head holds: a control character, or a line that ends in LF alone.
bool spoils_head(std::string_view text, size_t i) {
  const char c = text[i];
  if (c == '\n') return i == 0 || text[i - 1] != '\r';
  return c != '\r' && c != '\t' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
}

template <class T>
bool parse_whole(std::string_view text, T& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool decode_path(std::string_view text, std::string& path) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      path += text[i];
      continue;
    }
    unsigned char byte = 0;
    if (i + 2 >= text.size() || !parse_whole(text.substr(i + 1, 2), byte, 16) || byte == 0) {
      return false;
    }
    path += static_cast<char>(byte);
    i += 2;
  }
  return true;
}

}  // namespace

std::string ascii_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

const std::string* HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return &value;
  }
  return nullptr;
}

void HttpParser::add(std::string_view bytes) {
  if (failed()) return;
  held_ += bytes;
  if (!done()) advance();
}

HttpRequest HttpParser::take() {
  HttpRequest request = std::exchange(request_, {});
  state_ = State::head;
  expects_continue_ = false;
  trailing_ = 0;
  advance();
  return request;
}

void HttpParser::fail(int status, std::string message) {
  state_ = State::failed;
  status_ = status;
  message_ = std::move(message);
  held_.clear();
}

void HttpParser::advance() {
  while (!done() && !failed() && step()) {
  }
}

// Understands the next piece of what is held; false when it is not all there yet.
bool HttpParser::step() {
  std::string line;
  switch (state_) {
    case State::head: {
      while (held_.starts_with("\r\n")) {  // allowed before a request
        held_.erase(0, 2);
        looked_ = 0;
      }
      const size_t end = held_.find("\r\n\r\n");
      if (!looks_like_a_head(std::min({end, held_.size(), limits_.header_bytes}))) return false;
      // What could still be the start of the end does not count, however the bytes are cut.
      const size_t seen =
          end != held_.npos ? end : held_.size() - std::min<size_t>(3, held_.size());
      if (seen > limits_.header_bytes) {
        fail(431, "the headers are larger than this server takes");
        return false;
      }
      if (end == held_.npos) return false;
      const std::string head = held_.substr(0, end + 2);
      held_.erase(0, end + 4);
      looked_ = 0;
      return read_head(head) && plan_body();
    }
    case State::body:
      return step_body();
    case State::chunk_size:
      return step_chunk_size();
    case State::chunk:
      return step_body();
    case State::chunk_end:
      if (held_.size() < 2) return false;
      if (!held_.starts_with("\r\n")) {
        fail(400, "a chunk of the body is longer than it said");
        return false;
      }
      held_.erase(0, 2);
      state_ = State::chunk_size;
      return true;
    case State::trailers:
      if (!take_line(line, limits_.header_bytes)) return false;
      trailing_ += line.size() + 2;
      if (line.empty()) state_ = State::done;
      if (trailing_ > limits_.header_bytes) fail(431, "the trailers are larger than allowed");
      return true;
    case State::done:
    case State::failed:
      return false;
  }
  return false;
}

// Said at once, not when a head that will never come has not come in time.
bool HttpParser::looks_like_a_head(size_t end) {
  for (; looked_ < end; ++looked_) {
    if (!spoils_head(held_, looked_)) continue;
    const bool tls = looked_ == 0 && held_[0] == 0x16;
    fail(400, tls ? "this server speaks plain HTTP: ask it by http://, not by https://"
                  : "expected a request of HTTP/1.1 in lines that end with CR LF");
    return false;
  }
  return true;
}

bool HttpParser::take_line(std::string& line, size_t most) {
  const size_t end = held_.find("\r\n");
  const size_t seen = end != held_.npos ? end : held_.size() - std::min<size_t>(1, held_.size());
  if (seen > most) {
    fail(400, "a line of the body's framing is too long");
    return false;
  }
  if (end == held_.npos) return false;
  line = held_.substr(0, end);
  held_.erase(0, end + 2);
  return true;
}

bool HttpParser::step_body() {
  const size_t count = std::min(left_, held_.size());
  request_.body.append(held_, 0, count);
  held_.erase(0, count);
  left_ -= count;
  if (left_ > 0) return false;
  state_ = state_ == State::body ? State::done : State::chunk_end;
  return true;
}

bool HttpParser::step_chunk_size() {
  std::string line;
  if (!take_line(line, 256)) return false;
  const std::string_view digits = trim(std::string_view(line).substr(0, line.find(';')));
  uint64_t size = 0;
  if (digits.size() > 15 || !parse_whole(digits, size, 16)) {
    fail(400, "expected the size of a chunk of the body in hexadecimal digits");
    return false;
  }
  if (size > limits_.body_bytes - std::min(limits_.body_bytes, request_.body.size())) {
    fail(413, "the body is larger than this server takes");
    return false;
  }
  left_ = size;
  state_ = size == 0 ? State::trailers : State::chunk;
  return true;
}

bool HttpParser::read_head(std::string_view head) {
  bool first = true;
  while (!head.empty()) {
    const size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (!(first ? read_request_line(line) : read_header(line))) return false;
    first = false;
  }
  return true;
}

bool HttpParser::read_request_line(std::string_view line) {
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() != 3 || !is_token(words[0]) || words[1].empty() || !is_printable(words[1])) {
    fail(400, "expected a request line: method, target, HTTP/1.1");
    return false;
  }
  if (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0") {
    fail(words[2].starts_with("HTTP/") ? 505 : 400, "expected HTTP/1.1");
    return false;
  }
  request_.method = words[0];
  request_.http_1_0 = words[2] == "HTTP/1.0";
  request_.keep_alive = !request_.http_1_0;
  std::string_view target = words[1];
  if (target.starts_with("http://")) {  // absolute form
    const size_t slash = target.find('/', 7);
    target = slash == target.npos ? "/" : target.substr(slash);
  }
  const size_t mark = target.find('?');
  if (mark != target.npos) request_.query = target.substr(mark + 1);
  if (!target.starts_with('/') || !decode_path(target.substr(0, mark), request_.path)) {
    fail(400, "expected a path as the request's target");
    return false;
  }
  return true;
}

bool HttpParser::read_header(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon)) || !is_printable(line)) {
    fail(400, "expected headers of the form 'name: value'");
    return false;
  }
  request_.headers.emplace_back(ascii_lower(line.substr(0, colon)), trim(line.substr(colon + 1)));
  return true;
}

// Which framing the body has. Two that disagree are how requests are smuggled, so they are refused,
// and so are two names of the server.
bool HttpParser::plan_body() {
  const std::string* length = nullptr;
  const std::string* encoding = nullptr;
  const std::string* host = nullptr;
  for (const auto& [name, value] : request_.headers) {
    if (name == "connection") {
      const std::string words = ascii_lower(value);
      if (words.find("close") != words.npos) request_.keep_alive = false;
      if (words.find("keep-alive") != words.npos) request_.keep_alive = true;
    }
    if (name == "expect") expects_continue_ = ascii_lower(value) == "100-continue";
    if (name != "content-length" && name != "transfer-encoding" && name != "host") continue;
    const std::string*& seen = name == "content-length" ? length : name == "host" ? host : encoding;
    if (seen != nullptr) {
      fail(400, "the header " + name + " comes twice");
      return false;
    }
    seen = &value;
  }
  if (encoding != nullptr) {
    if (length != nullptr) {
      fail(400, "both content-length and transfer-encoding are given");
    } else if (ascii_lower(*encoding) != "chunked") {
      fail(501, "the only transfer-encoding that is understood is chunked");
    } else {
      state_ = State::chunk_size;
    }
    return !failed();
  }
  uint64_t bytes = 0;
  if (length != nullptr && !parse_whole(std::string_view(*length), bytes, 10)) {
    fail(400, "content-length: expected a number");
    return false;
  }
  if (bytes > limits_.body_bytes) {
    fail(413, "the body is larger than this server takes");
    return false;
  }
  left_ = bytes;
  state_ = State::body;
  return true;
}

}  // namespace tephra
