package coordination

// coordinateSchema is the input of the tool coordinate. Models read it, so every
// word has to earn its place; the operations check more than it says.
const coordinateSchema = `{"type":"object","required":["action"],"properties":{
"action":{"enum":["project/list","project/get","project/create","project/join","project/leave","contract/list","contract/get","contract/propose","contract/respond","contract/update","contract/diff","contract/check","contract/provider","who_breaks","may_merge","context/share","context/askQuestion","context/recordDecision","context/list","context/getThread","implementation/start","implementation/complete","implementation/verify","implementation/getStatus"]},
"projectId":{"type":"string","description":"all but project/list and project/create"},
"contractId":{"type":"string","description":"or its unique name"},
"name":{"type":"string","description":"of a new project or contract"},
"objective":{"type":"string"},
"repos":{"type":"array","items":{"type":"object","required":["name","role","language"],"properties":{"name":{"type":"string"},"role":{"type":"string"},"language":{"type":"string"}}}},
"repoName":{"type":"string","description":"project/join, contract/check; else the repository you act for, if you claimed several"},
"type":{"type":"string","description":"contract: api_endpoint|event_schema|data_model|config_spec|rpc_interface|custom. context: code_snippet|type_definition|api_spec|error_catalog|env_config|test_case|dependency_info|implementation_status"},
"content":{"type":"object","description":"of a contract or packet; api_endpoint: method, path, requestBody, responseBody"},
"answer":{"enum":["agree","request_change","reject"],"description":"contract/respond"},
"comment":{"type":"string"},
"version":{"type":"integer","description":"respond, update: the version you saw"},
"changeNote":{"type":"string","description":"contract/update"},
"includeHistory":{"type":"boolean"},
"question":{"type":"string"},
"options":{"type":"array","items":{"type":"string"}},
"urgent":{"type":"boolean"},
"decision":{"type":"string"},"chosen":{"type":"string"},"rationale":{"type":"string"},
"relatedContracts":{"type":"array","items":{"type":"string"}},
"replyTo":{"type":"string","description":"packet answered"},
"packetId":{"type":"string"},
"plan":{"type":"string","description":"implementation/start"},
"files":{"type":"array","items":{"type":"string"},"description":"implementation/complete"},
"result":{"enum":["success","failure","partial"],"description":"implementation/verify"},
"notes":{"type":"string"},
"provider":{"type":"string","description":"propose, contract/provider: the repository that offers it"},
"commit":{"type":"string","description":"may_merge, complete, verify"},
"require":{"enum":["agreed","implemented","verified"],"description":"contract/check"},
"limit":{"type":"integer"}}}`
