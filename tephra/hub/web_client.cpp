// SPDX-License-Identifier: Apache-2.0
#include "tephra/hub/web_client.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr size_t kErrorText = 2000;  // bytes of an error's body that are kept

// The functions we call, with the types that the header gives them.
struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_version) version = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  std::string why_not;
};

template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

CurlLibrary open_curl() {
  CurlLibrary c;
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"}) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (c.why_not.empty()) c.why_not = ::dlerror();
  }
  if (library == nullptr) return c;
  const bool whole = find_function(library, "curl_global_init", c.global_init) &&
                     find_function(library, "curl_version", c.version) &&
                     find_function(library, "curl_easy_init", c.easy_init) &&
                     find_function(library, "curl_easy_reset", c.easy_reset) &&
                     find_function(library, "curl_easy_setopt", c.easy_setopt) &&
                     find_function(library, "curl_easy_perform", c.easy_perform) &&
                     find_function(library, "curl_easy_getinfo", c.easy_getinfo) &&
                     find_function(library, "curl_easy_strerror", c.easy_strerror) &&
                     find_function(library, "curl_easy_cleanup", c.easy_cleanup) &&
                     find_function(library, "curl_slist_append", c.slist_append) &&
                     find_function(library, "curl_slist_free_all", c.slist_free_all);
  c.why_not = whole ? "" : "the libcurl of this machine lacks functions that are needed";
  if (whole && c.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) c.why_not = "libcurl did not start";
  return c;
}

const CurlLibrary& curl() {
  static const CurlLibrary library = open_curl();
  return library;
}

// A TLS library writes to a connection that broke without telling the kernel to hold its signal.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec at_once{};
    if (sigismember(&before_, SIGPIPE) == 0) {
      while (sigtimedwait(&pipe_, nullptr, &at_once) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

}  // namespace

// What the callbacks of one request share.
struct WebClient::Transfer {
  const WebRequest& request;
  void* handle;
  WebAnswer answer = {};
  int responses = 0;  // heads begun so far: redirects come before the last
  bool head_told = false;
  bool ended_by_us = false;

  bool is_redirect() const {
    return answer.status >= 300 && answer.status < 400 && answer.headers.contains("location");
  }

  void take_header(std::string_view line) {
    if (line.starts_with("HTTP/")) {
      answer.headers.erase("location");
      const size_t space = line.find(' ');
      answer.status = space == line.npos ? 0 : std::atoi(std::string(line.substr(space)).c_str());
      ++responses;
      return;
    }
    const size_t colon = line.find(':');
    if (colon == line.npos) return;
    const std::string name = lower_case(line.substr(0, colon));
    const std::string value(trim(line.substr(colon + 1)));
    // It may also be a date; then our own waiting does.
    if (name == "retry-after" && !value.empty() && value[0] >= '0' && value[0] <= '9') {
      answer.retry_after = std::atof(value.c_str());
    }
    if (name == "etag" && answer.headers.contains(name) && responses > 1) return;
    answer.headers[name] = value;
  }

  // Whether the transfer goes on.
  bool tell_head() {
    if (head_told || answer.status >= 400 || !request.on_head) return true;
    head_told = true;
    return request.on_head(answer.status, answer.headers);
  }

  bool take_bytes(std::span<const std::byte> bytes) {
    if (answer.status >= 400) {
      const size_t room = kErrorText - std::min(kErrorText, answer.text.size());
      answer.text.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
      return true;
    }
    if (is_redirect()) return true;  // its text is for people
    return tell_head() && request.on_bytes(bytes);
  }

  // Exceptions must not pass through a library in C.
  template <class Body>
  bool guarded_step(const Body& body) {
    try {
      if (body()) return true;
    } catch (...) {
      thrown = std::current_exception();
    }
    ended_by_us = true;
    return false;
  }

  static size_t on_header(char* data, size_t one, size_t count, void* self) {
    static_cast<Transfer*>(self)->take_header({data, one * count});
    return one * count;
  }
  static size_t on_data(char* data, size_t one, size_t count, void* self) {
    auto* t = static_cast<Transfer*>(self);
    const std::span bytes(data, one * count);
    return t->guarded_step([&] { return t->take_bytes(std::as_bytes(bytes)); }) ? one * count : 0;
  }
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto* t = static_cast<Transfer*>(self);
    return t->guarded_step([&] { return !t->request.stop || !t->request.stop(); }) ? 0 : 1;
  }

  std::exception_ptr thrown = {};
};

WebClient::WebClient() {
  if (!curl().why_not.empty()) {
    throw Error(Fault::usage, "there is no libcurl on this machine: " + curl().why_not,
                "apt-get install libcurl4 ca-certificates");
  }
  handle_ = curl().easy_init();
  TEPHRA_ASSERT(handle_ != nullptr, "libcurl gives handles while there is memory");
}

WebClient::~WebClient() { curl().easy_cleanup(handle_); }

std::string WebClient::library_version() {
  if (!curl().why_not.empty()) return curl().why_not;
  const std::string all = curl().version();  // and those of its own libraries
  return all.substr(0, all.find(' '));
}

WebAnswer WebClient::get(const WebRequest& request) {
  const CurlLibrary& c = curl();
  const WithoutSigpipe quiet;
  c.easy_reset(handle_);
  Transfer transfer{.request = request, .handle = handle_};
  char reason[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) {
    require(c.easy_setopt(handle_, option, value) == CURLE_OK,
            "expected a libcurl of version 7.85 or newer, got {}", c.version());
  };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_ERRORBUFFER, reason);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "tephra/" TEPHRA_VERSION);
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 8L);
  // A secure beginning stays secure.
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, request.url.starts_with("https:") ? "https" : "http,https");
  set(CURLOPT_CONNECTTIMEOUT, 30L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.stall_seconds)));
  set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, &Transfer::on_data);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  set(CURLOPT_XFERINFODATA, &transfer);
  if (request.from > 0) set(CURLOPT_RANGE, format("{}-", request.from).c_str());
  curl_slist* headers = nullptr;
  if (!request.token.empty()) {
    headers = c.slist_append(headers, ("Authorization: Bearer " + request.token).c_str());
    set(CURLOPT_HTTPHEADER, headers);
  }
  const CURLcode code = c.easy_perform(handle_);
  c.slist_free_all(headers);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (code != CURLE_OK && !transfer.ended_by_us) {
    transfer.answer.failure = *reason != '\0' ? reason : c.easy_strerror(code);
    transfer.answer.unreachable = code == CURLE_COULDNT_RESOLVE_PROXY ||
                                  code == CURLE_COULDNT_RESOLVE_HOST ||
                                  code == CURLE_COULDNT_CONNECT;
  }
  if (code == CURLE_OK) transfer.tell_head();  // of an empty body
  return std::move(transfer.answer);
}

}  // namespace tephra
