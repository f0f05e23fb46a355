package model

// counts are the tokens that an answer says it cost. input is all input, with the cached part;
// written is input that was put into a cache, on top of it. reasoning is a part of output.
type counts struct {
	input, cached, written int
	output, reasoning      int
}

// usage returns the tokens of a request and its answer: those of the script, else a rough count.
func usage(r *request, a *answer) counts {
	if s := a.said; s != nil {
		return counts{input: s.Input, cached: s.Cached, written: s.Written, output: s.Output, reasoning: s.Reasoning}
	}
	var c counts
	c.input = tokens(r.system)
	for _, it := range r.items {
		c.input += tokens(it.text())
	}
	for _, p := range a.parts {
		c.output += tokens(p.text) + tokens(p.call.args)
	}
	return c
}

// A vendor is the form of an error in one API for one cause.
type vendor struct {
	status  int
	body    any
	headers map[string]string
}

// The causes of errors that a script may name.
const (
	causeQuota    = "quota"    // the account has nothing left to spend
	causeRate     = "rate"     // too many calls in a short time
	causeLogin    = "login"    // the key is not valid
	causeContext  = "context"  // the conversation is too long
	causeOverload = "overload" // the service has too much to do
)

var causes = []string{causeQuota, causeRate, causeLogin, causeContext, causeOverload}

// vendorFailure returns the error of an API for a cause, as its vendor sends it.
func vendorFailure(way, cause string) vendor {
	switch way {
	case messagesAPI.name:
		return anthropicFailure(cause)
	case geminiAPI.name:
		return googleFailure(cause)
	}
	return openAICause(cause)
}

// anthropicFailure returns an error of Anthropic. A spent quota says that another try is in vain.
func anthropicFailure(cause string) vendor {
	failure := func(status int, kind, text string, headers map[string]string) vendor {
		return vendor{status, obj{"type": "error", "error": obj{"type": kind, "message": text}}, headers}
	}
	switch cause {
	case causeQuota:
		return failure(429, "rate_limit_error", "This request would exceed your account's rate limit. Please try again later.", map[string]string{
			"x-should-retry": "false", "anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": "4102444800",
		})
	case causeRate:
		return failure(429, "rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit", map[string]string{"retry-after": "2"})
	case causeLogin:
		return failure(401, "authentication_error", "invalid x-api-key", nil)
	case causeContext:
		return failure(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum", nil)
	}
	return failure(529, "overloaded_error", "Overloaded", nil)
}

// openAICause returns an error of OpenAI, as its API and the services like it send them.
func openAICause(cause string) vendor {
	failure := func(status int, kind, code, text string, headers map[string]string) vendor {
		return vendor{status, obj{"error": obj{"message": text, "type": kind, "param": nil, "code": code}}, headers}
	}
	switch cause {
	case causeQuota:
		return failure(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details.", nil)
	case causeRate:
		return failure(429, "tokens", "rate_limit_exceeded", "Rate limit reached. Please try again in 2s.", map[string]string{"retry-after": "2"})
	case causeLogin:
		return failure(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided.", nil)
	case causeContext:
		return failure(400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is 128000 tokens. Your messages resulted in 250000 tokens.", nil)
	}
	return failure(503, "server_error", "server_is_overloaded", "The server is overloaded. Please try again later.", nil)
}

// googleFailure returns an error of Google.
func googleFailure(cause string) vendor {
	failure := func(status int, name, text string, details ...any) vendor {
		e := obj{"code": status, "message": text, "status": name}
		if len(details) > 0 {
			e["details"] = details
		}
		return vendor{status, obj{"error": e}, nil}
	}
	switch cause {
	case causeQuota:
		return failure(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.",
			obj{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{obj{"quotaMetric": "generativelanguage.googleapis.com/generate_requests_per_model_per_day", "quotaId": "GenerateRequestsPerDayPerProjectPerModel"}}},
			obj{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"})
	case causeRate:
		return failure(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", obj{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s"})
	case causeLogin:
		return failure(401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key.")
	case causeContext:
		return failure(400, "INVALID_ARGUMENT", "The input token count (250000) exceeds the maximum number of tokens allowed (128000).")
	}
	return failure(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
}
