"""The papers' experiments made again, and the accuracy study: `replicate`. No part of the product."""
