package relay

// CallsMax bounds the calls that wait for clients. Each costs some 300 bytes and lasts as long as the client needs, 10 s at most.
const CallsMax = 4096
