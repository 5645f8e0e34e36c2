package stats

// ItemsMax bounds the items of all kinds. Each costs up to 1.5 KiB; names come from the network. What is over it is not counted.
const ItemsMax = 100_000
